/* SPDX-License-Identifier: MIT */
/*
 * curl_calls.c: finds libcurl's functions in the library of the system.
 *
 * The library stays loaded until the process ends. setopt and getinfo take their last argument
 * through an ellipsis: they are called here only, by functions with a type each.
 */
#include <dlfcn.h>

#include "curl_calls.h"

#define LIBRARY "libcurl.so.4"

static struct curl_calls calls;
static bool loaded;
static CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
static CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);

/* look_up: puts the address of a function into *slot. POSIX lets a void pointer hold one, ISO C has
 * no cast for it. */
static bool look_up(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);

    memcpy(slot, &address, sizeof address);
    return address != NULL;
}

const struct curl_calls *curl_load(struct dibs_error *err)
{
    void *library = NULL;
    bool all = true;

    if (loaded)
        return &calls;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        error_set(err, DIBS_DAEMON_UNREACHABLE,
                  "cannot load libcurl, which speaks HTTP: %s; on Debian, install libcurl4",
                  dlerror());
        return NULL;
    }
#define C(name) all = look_up(library, "curl_" #name, &calls.name) && all;
    CURL_CALLS(C)
#undef C
    all = look_up(library, "curl_easy_setopt", &easy_setopt) && all;
    all = look_up(library, "curl_easy_getinfo", &easy_getinfo) && all;
    if (!all || calls.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        dlclose(library);
        error_set(err, DIBS_DAEMON_UNREACHABLE, "cannot use '" LIBRARY "', which speaks HTTP: %s",
                  all ? "it does not start" : "it lacks a function; 7.88 or later is needed");
        return NULL;
    }
    loaded = true;
    return &calls;
}

CURLcode curl_set_long(CURL *easy, CURLoption option, long value)
{
    return easy_setopt(easy, option, value);
}

CURLcode curl_set_text(CURL *easy, CURLoption option, const char *text)
{
    return easy_setopt(easy, option, text);
}

CURLcode curl_set_pointer(CURL *easy, CURLoption option, const void *pointer)
{
    return easy_setopt(easy, option, pointer);
}

CURLcode curl_set_writer(CURL *easy,
                         size_t (*writer)(char *bytes, size_t one, size_t count, void *context),
                         void *context)
{
    CURLcode code = easy_setopt(easy, CURLOPT_WRITEFUNCTION, writer);

    return code != CURLE_OK ? code : easy_setopt(easy, CURLOPT_WRITEDATA, context);
}

long curl_get_long(CURL *easy, CURLINFO info)
{
    long value = 0;

    return easy_getinfo(easy, info, &value) == CURLE_OK ? value : 0;
}

int64_t curl_get_number(CURL *easy, CURLINFO info)
{
    curl_off_t value = 0;

    return easy_getinfo(easy, info, &value) == CURLE_OK ? value : 0;
}

const char *curl_get_text(CURL *easy, CURLINFO info)
{
    char *text = NULL;

    return easy_getinfo(easy, info, &text) == CURLE_OK ? text : NULL;
}
