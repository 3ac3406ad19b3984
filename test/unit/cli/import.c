/* SPDX-License-Identifier: MIT */
/*
 * import.c: tests of src/cli/import.c: where one value ends and the next begins, and on which line.
 */
#include "cli/import.h"

#include <setjmp.h>

#include <cmocka.h>

/* read_all: every value with its line, as "1:{...} 2:[...]", or the refusal. */
static void read_all(const char *text, char *out, size_t bytes)
{
    struct import in;
    struct dibs_error err = {0};
    struct buf b;
    json_t *value = NULL;
    FILE *from = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    assert_non_null(from);
    buf_init(&b, bytes - 1);
    import_init(&in, from);
    for (;;) {
        if (import_next(&in, &value, &err) != DIBS_OK) {
            buf_printf(&b, "!%s", err.message);
            break;
        }
        if (value == NULL)
            break;
        char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        buf_printf(&b, "%s%" PRId64 ":%s", b.len > 0 ? " " : "", in.at, json);
        json_free_t release = NULL;
        json_get_alloc_funcs(NULL, &release);
        release(json);
        json_decref(value);
    }
    snprintf(out, bytes, "%s", b.data);
    buf_release(&b);
    import_release(&in);
    fclose(from);
}

static void assert_reads(const char *text, const char *expected)
{
    char out[1000];
    read_all(text, out, sizeof out);
    assert_string_equal(out, expected);
}

static void assert_refuses(const char *text, const char *start)
{
    char out[1000];
    read_all(text, out, sizeof out);
    const char *refusal = strchr(out, '!');
    assert_non_null(refusal);
    assert_memory_equal(refusal + 1, start, strlen(start));
}

static void test_lines_are_values(void **state)
{
    (void)state;
    assert_reads("{\"a\":1}\n\n  {\"b\":2}  \n3", "1:{\"a\":1} 3:{\"b\":2} 4:3");
    assert_reads("{\"a\":1}\r\n{\"b\":2}\r\n", "1:{\"a\":1} 2:{\"b\":2}");
    assert_reads(" \n", "");
}

static void test_elements_of_an_array_are_values(void **state)
{
    (void)state;
    assert_reads("[]", "");
    assert_reads("[ {\"a\":[1,{}]} , [2]\n,\n3 ]\n", "1:{\"a\":[1,{}]} 1:[2] 3:3");
    assert_reads("[\"]},\\\"[\",{\"\\\\\":\"\\\\\"}]", "1:\"]},\\\"[\" 1:{\"\\\\\":\"\\\\\"}");
}

static void test_what_is_broken_is_named_by_its_line(void **state)
{
    (void)state;
    assert_refuses("{\"a\":1}\n{\"a\":\n", "line 2: ");
    assert_refuses("[\n{\"a\":1}\n{\"a\":2}]", "line 3: a comma is missing");
    assert_refuses("[{\"a\":1}", "line 1: the array does not end");
    assert_refuses("[\n", "line 2: the array does not end");
    assert_refuses("[{\"a\":1},\n]", "line 2: ");
    assert_refuses("[1]\n[2]", "line 2: something follows after the end of the array");
    assert_refuses("[{\"a\":1,\"a\":2}]", "line 1: ");
    assert_refuses("[\"never closed]", "line 1: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_values),
        cmocka_unit_test(test_elements_of_an_array_are_values),
        cmocka_unit_test(test_what_is_broken_is_named_by_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
