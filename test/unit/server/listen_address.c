/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/listen_address.c: what --listen may say, and how the rest is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/listen_private.h"

static void test_every_way_to_write_an_address(void **state)
{
    static const struct {
        const char *text, *host;
        int port;
        bool loopback, any;
    } rows[] = {
        {"7200", "127.0.0.1", 7200, true, false},
        {"0", "127.0.0.1", 0, true, false},
        {"127.0.0.1", "127.0.0.1", 7117, true, false},
        {"127.1.2.3:80", "127.1.2.3", 80, true, false},
        {"0.0.0.0:80", "0.0.0.0", 80, false, true},
        {"10.0.0.5:65535", "10.0.0.5", 65535, false, false},
        {"::1", "::1", 7117, true, false},
        {"[::1]", "::1", 7117, true, false},
        {"[::1]:81", "::1", 81, true, false},
        {"[::]:81", "::", 81, false, true},
        {"[2001:db8::1]:81", "2001:db8::1", 81, false, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct address a = {0};
        char host[64] = "";
        int port = -1;
        struct dibs_error err = {0};
        if (address_read(rows[i].text, &a, &err) != DIBS_OK)
            fail_msg("%s: %s", rows[i].text, err.message);
        address_host(&a.at, host, sizeof host, &port);
        assert_string_equal(host, rows[i].host);
        assert_int_equal(port, rows[i].port);
        assert_int_equal(a.loopback, rows[i].loopback);
        assert_int_equal(a.any, rows[i].any);
        assert_null(a.path);
    }
}

static void test_a_path_is_a_unix_socket(void **state)
{
    struct address a = {0};
    struct dibs_error err = {0};
    (void)state;
    assert_int_equal(address_read("unix:/run/dibs.sock", &a, &err), DIBS_OK);
    assert_string_equal(a.path, "/run/dibs.sock");
}

static void test_anything_else_is_refused_with_how_to_write_it(void **state)
{
    static const char *const rows[] = {
        "",
        "localhost",
        "localhost:80",
        "65536",
        "-1",
        "1.2.3:80",
        "1.2.3.4:",
        ":80",
        "1.2.3.4:65536",
        "1.2.3.4:-1",
        "[::1",
        "[::1]80",
        "[::1]:",
        "[]:80",
        "::1:x",
        "1.2.3.4:80:80",
        "unix:",
        "http://127.0.0.1:80",
        "127.0.0.1 ",
        "1.2.3.4:0x50",
        "[1.2.3.4]x",
        "0123456789012345678901234567890123456789012345678901234567890123456789:80",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct address a = {0};
        struct dibs_error err = {0};
        if (address_read(rows[i], &a, &err) != DIBS_INVALID_REQUEST)
            fail_msg("'%s' was accepted", rows[i]);
        assert_non_null(strstr(err.message, "ADDRESS:PORT"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_write_an_address),
        cmocka_unit_test(test_a_path_is_a_unix_socket),
        cmocka_unit_test(test_anything_else_is_refused_with_how_to_write_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
