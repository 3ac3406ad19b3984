/* SPDX-License-Identifier: MIT */
/*
 * curl_calls.h: libcurl, loaded when it is needed.
 *
 * Linking it would make every start of the program load some thirty libraries (TLS, Kerberos, LDAP,
 * SSH ...): 3.5 ms and 3 MB, also for a command that works on the data file and for a daemon that
 * has no answers to send. So its few functions that we use are looked up at the first request by
 * HTTP: of the sender (sender.c), and of the client, which is why it has this file from here.
 */
#ifndef DIBS_CURL_CALLS_H
#define DIBS_CURL_CALLS_H

#include <curl/curl.h>

#include "base/base.h"

/* C(name): curl_<name> */
#define CURL_CALLS(C)                                                                              \
    C(global_init)                                                                                 \
    C(easy_init)                                                                                   \
    C(easy_reset)                                                                                  \
    C(easy_perform)                                                                                \
    C(easy_cleanup)                                                                                \
    C(easy_strerror)                                                                               \
    C(slist_append)                                                                                \
    C(slist_free_all)                                                                              \
    C(multi_init)                                                                                  \
    C(multi_add_handle)                                                                            \
    C(multi_remove_handle)                                                                         \
    C(multi_perform)                                                                               \
    C(multi_poll)                                                                                  \
    C(multi_wakeup)                                                                                \
    C(multi_info_read)                                                                             \
    C(multi_cleanup)

struct curl_calls {
#define C(name) __typeof__(curl_##name) *name;
    CURL_CALLS(C)
#undef C
};

/* NULL: err says why. The first call is not safe against another one in a second thread. */
const struct curl_calls *curl_load(struct dibs_error *err);

/* curl_easy_setopt by type: behind its ellipsis an int in place of a long would do harm. The first
 * failure, which can only be a lack of memory, is returned by the one that meets it. */
CURLcode curl_set_long(CURL *easy, CURLoption option, long value);
CURLcode curl_set_text(CURL *easy, CURLoption option, const char *text); /* copied */
CURLcode curl_set_pointer(CURL *easy, CURLoption option, const void *pointer);
CURLcode curl_set_writer(CURL *easy,
                         size_t (*writer)(char *bytes, size_t one, size_t count, void *context),
                         void *context);
long curl_get_long(CURL *easy, CURLINFO info);        /* 0 when it is not known */
int64_t curl_get_number(CURL *easy, CURLINFO info);   /* the same for those that are a curl_off_t */
const char *curl_get_text(CURL *easy, CURLINFO info); /* NULL when it is not known */

#endif
