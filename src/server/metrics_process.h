/* SPDX-License-Identifier: MIT */
/* metrics_process.h: what the kernel says of this process. */
#ifndef DIBS_METRICS_PROCESS_H
#define DIBS_METRICS_PROCESS_H

#include "base/base.h"

struct process_numbers {
    int64_t resident_bytes, open_fds, max_fds, cpu_micros; /* 0: not known */
};
struct process_numbers process_numbers(void);

#endif
