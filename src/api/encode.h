/* SPDX-License-Identifier: MIT */
/*
 * encode.h: results of the library as JSON. Each enc_x writes one value, an object; the
 * enc_x_fields write the members of an object that the caller has begun and may add to. camelCase;
 * times are ISO 8601 text, durations whole milliseconds.
 */
#ifndef DIBS_ENCODE_H
#define DIBS_ENCODE_H

#include "base/json.h"

void enc_task(struct jw *w, const struct dibs_task *t);
void enc_claim(struct jw *w, const struct dibs_claim *c); /* of any kind, live or ended */
/* "claim": who has it and until when, of something that is not a task (Lease) */
void enc_lease(struct jw *w, const struct dibs_claim *c);
void enc_claims(struct jw *w, const char *key, const struct dibs_claim_list *list);
void enc_lock(struct jw *w, const struct dibs_claim *c);
void enc_granted(struct jw *w, const struct dibs_granted *g); /* {"task": ..., "claim": ...} */
void enc_session_fields(struct jw *w, const struct dibs_session *s);
void enc_event(struct jw *w, const struct dibs_event *e);
void enc_tallies(struct jw *w, const char *key, const struct dibs_tally_list *list);
/* mentionsCount, claimedChannels, channels (api_channel.c) */
void enc_mentions_fields(struct jw *w, const struct dibs_mentions_list *list);
void enc_message(struct jw *w, const struct dibs_message *m); /* of an inbox (api_inbox.c) */
void enc_messages(struct jw *w, const struct dibs_message_list *list); /* "messages": [...] */
/* a key that is not a literal of ours: escaped */
void enc_key(struct jw *w, const char *key);
/* The members of a refusal behind "success": false. */
void enc_refusal_fields(struct jw *w, dibs_status status, const struct dibs_error *err);

#endif
