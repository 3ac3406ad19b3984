/* SPDX-License-Identifier: MIT */
/*
 * http.c: bytes from a fuzzer as a stream of requests.
 *
 * Nothing may crash, no request may break what server/http.h promises, and the way the stream is
 * cut into pieces may make no difference: test/lib/http_check.c looks after that.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itest/lib -Ibuild \
 *         fuzz/http.c test/lib/http_check.c src/server/http*.c src/base/buf.c src/base/memory.c \
 *         src/base/str.c -lhttp_parser -o http-fuzz
 *     ./http-fuzz -max_len=4096 -max_total_time=120
 */
#include "http_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    http_check(bytes, count);
    return 0;
}
