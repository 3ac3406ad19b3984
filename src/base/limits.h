/* SPDX-License-Identifier: MIT */
/*
 * limits.h: every ceiling in one place, with its unit in its name and its reason beside it.
 */
#ifndef DIBS_LIMITS_H
#define DIBS_LIMITS_H

/* Text of tasks, sessions, locks. Ids fit into a URL segment and a log line. */
#define ID_BYTES_MAX 128
#define TITLE_BYTES_MAX 1024
#define WORD_BYTES_MAX 128      /* type, phase, project, agent type, tag, release reason */
#define RESOURCE_BYTES_MAX 1024 /* a lock may name a path */
#define DESCRIPTION_BYTES_MAX (64 * 1024)
#define MESSAGE_BYTES_MAX 4096  /* error of a failure, progress message, reason */
#define KEY_BYTES_MAX 256       /* idempotency key, dedupe key */
#define AGENT_NAME_BYTES_MAX 64 /* what is written as @name */

/* JSON carried for the caller. A request body may hold 1 MiB, so one value takes at most a quarter
 * of it. */
#define JSON_VALUE_BYTES_MAX (256 * 1024)
#define JSON_DEPTH_MAX 32 /* deeper documents are mistakes or attacks */
#define BODY_BYTES_MAX (1024 * 1024)
#define ANSWER_BYTES_MAX (64 * 1024 * 1024) /* a page of 1,000 large tasks */

/* Lists. */
#define TAGS_MAX 32
#define DEPENDENCIES_MAX 256
#define TYPES_MAX 64         /* types in one claim-next: one index probe each */
#define BATCH_TASKS_MAX 1000 /* tasks in one create, so that one transaction stays short */
#define CLAIM_COUNT_MAX 100  /* tasks in one claim-next */
#define CAPABILITIES_MAX 64  /* words that an agent says of itself */
#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define CLAIM_HISTORY_SHOWN 10 /* on a session card */

#define AGENT_TASKS_MAX 10000 /* tasks that an agent may hold at once */

#define PRIORITY_MIN 0
#define PRIORITY_MAX 100
#define PRIORITY_DEFAULT 50
#define MAX_ATTEMPTS_DEFAULT 3
#define MAX_ATTEMPTS_MAX 1000000
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_LAST_MS (10 * 60 * 1000)

/* Waiting. */
#define WAIT_MS_MAX (10 * 60 * 1000)
#define WAIT_POLL_MS 20 /* how often a waiting library call looks for changes by other processes */

/* Sweeps stay short so that no writer waits long behind one. */
#define EXPIRE_BATCH_MAX 64
#define SWEEP_BATCH_MAX 1000
#define TEND_BATCH_MAX 200   /* leases a daemon ends in one go: about 10 ms without service */
#define FOLD_BATCH_MAX 10000 /* events counted into the scores at once: some 10 ms */

/* SQLite. */
#define WAL_CHECKPOINT_PAGES 1000 /* little and often: 4 MB */
#define WAL_TRUNCATE_PAGES 16384  /* 64 MB: a reader has starved checkpoints, give the room back */
#define STATEMENTS_MAX 256        /* prepared statements kept per connection */
#define BATCH_LEVELS_MAX 8        /* batches inside one another */
#define BUSY_TIMEOUT_MS 5000      /* only a foreign program (sqlite3 shell) can make us wait here */

/* Requests per minute and API key: enough for a worker that polls, little for one gone wild. */
#define KEY_RATE_DEFAULT 100
#define KEY_RATE_MAX 1000000

#define IDEMPOTENCY_KEEP_MS (24LL * 60 * 60 * 1000)

#endif
