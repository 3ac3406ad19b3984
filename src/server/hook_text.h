/* SPDX-License-Identifier: MIT */
/*
 * hook_text.h: texts out of a delivery, for those who read one.
 */
#ifndef DIBS_HOOK_TEXT_H
#define DIBS_HOOK_TEXT_H

#include "base/buf.h"
#include "base/json.h"
#include "hook.h"

/* A delivery that is being read. The first lack of memory is remembered; check it at the end. */
struct hook_reader {
    dibs_arena *a;
    const struct dibs_hook_settings *set;
    json_t *root;
    bool no_memory;
};

/* Text at a path such as "issue", "user", "login"; NULL when there is no text. Borrowed. */
#define hook_at(json, ...) hook_at_path((json), (const char *const[]){__VA_ARGS__, NULL})
const char *hook_at_path(const json_t *json, const char *const *path);
/* A copy of at most max bytes, cut between characters and marked so when it is longer; NULL for
 * NULL. */
const char *hook_copy(struct hook_reader *r, const char *text, size_t max);
/* A copy of a setting, as it may be read anew while the delivery is on its way to the writer; NULL
 * when it is empty. */
const char *hook_setting(struct hook_reader *r, const char *text);
const char *hook_printf(struct hook_reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* Moves what was written into the arena, cut as above; releases it. */
const char *hook_take(struct hook_reader *r, struct buf *b, size_t max);
/* DIBS_OK, or out of memory. Frees the document. */
dibs_status hook_end(struct hook_reader *r, dibs_status status, struct dibs_error *err);

#endif
