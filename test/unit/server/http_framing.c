/* SPDX-License-Identifier: MIT */
/*
 * http_framing.c: requests whose body two readers could see end at different places: the classic
 * way to smuggle a second request past the first reader.
 *
 * Behind each stands a canary, a request in the same bytes. The refusal must be the only thing that
 * comes out, however the bytes are cut.
 */
#include "http_rows.h"

static const struct http_row framings[] = {
    /* lengths that are no plain number */
    BAD("Content-Length:"),
    BAD("Content-Length: "),
    BAD("Content-Length: +5"),
    BAD("Content-Length: -5"),
    BAD("Content-Length: -0"),
    BAD("Content-Length: 5 "),
    BAD("Content-Length:  5"),
    BAD("Content-Length:\t5"),
    BAD("Content-Length: 5\t"),
    BAD("Content-Length: 5 5"),
    BAD("Content-Length: 5,5"),
    BAD("Content-Length: 5, 5"),
    BAD("Content-Length: 5;5"),
    BAD("Content-Length: ,5"),
    BAD("Content-Length: 5,"),
    BAD("Content-Length: 0x5"),
    BAD("Content-Length: 5x"),
    BAD("Content-Length: x5"),
    BAD("Content-Length: a"),
    BAD("Content-Length: 1a"),
    BAD("Content-Length: 05"),
    BAD("Content-Length: 00"),
    BAD("Content-Length: 5."),
    BAD("Content-Length: 5.0"),
    BAD("Content-Length: 5e0"),
    BAD("Content-Length: 1_0"),
    BAD("Content-Length: \"5\""),
    BAD("Content-Length: '5'"),
    BAD("Content-Length: five"),
    BAD("Content-Length: \xd9\xa5"),
    BAD("Content-Length: \xb2"),
    BAD("Content-Length: 5\0"),
    BAD("Content-Length: \0"
        "5"),
    BAD("Content-Length: 5\x0b"),
    BAD("Content-Length: 5\r\n 6"),
    BAD("Content-Length:\r\n 5"),
    BAD("Content-Length: 1234567890123456789"),
    BAD("Content-Length: 18446744073709551616"),
    BAD("Content-Length: 18446744073709551621"),
    BAD("Content-Length: 18446744073709551615"),
    BAD("Content-Length: 9223372036854775808"),
    BAD("Content-Length: 99999999999999999999999999999999999999"),
    BAD("Content-Length: 0000000000000000000000000000000000005"),
    BAD("Content-Length : 5"),
    BAD(" Content-Length: 5"),
    BAD("Content-Length\t: 5"),
    BAD("Content-Length 5"),
    BAD("Content-Length\0: 5"),
    BAD("Content-Length\x0b: 5"),
    ROW(413, "Content-Length: 1048577"),
    ROW(413, "Content-Length: 4294967301"),
    ROW(413, "Content-Length: 999999999999999999"),
    /* two lengths */
    BAD("Content-Length: 5\r\nContent-Length: 5"),
    BAD("Content-Length: 5\r\nContent-Length: 6"),
    BAD("Content-Length: 0\r\nContent-Length: 5"),
    BAD("Content-Length: 5\r\nX: y\r\ncontent-length: 5"),
    BAD("Content-Length: 5\r\nContent-Length:"),
    BAD("CONTENT-LENGTH: 5\r\nContent-Length: 0"),
    /* a length and an encoding */
    BAD("Content-Length: 5\r\nTransfer-Encoding: chunked"),
    BAD("Transfer-Encoding: chunked\r\nContent-Length: 5"),
    BAD("Transfer-Encoding: chunked\r\nContent-Length: 0"),
    BAD("Content-Length: 0\r\nX: y\r\ntransfer-encoding: chunked"),
    BAD("Content-Length: 5\r\nTransfer-Encoding: identity"),
    BAD("Content-Length: 5\r\nTransfer-Encoding:"),
    BAD("Content-Length: 5\r\nTransfer-Encoding: x"),
    /* encodings other than chunked */
    BAD("Transfer-Encoding:"),
    BAD("Transfer-Encoding: "),
    BAD("Transfer-Encoding: identity"),
    BAD("Transfer-Encoding: gzip"),
    BAD("Transfer-Encoding: gzip, chunked"),
    BAD("Transfer-Encoding: chunked, gzip"),
    BAD("Transfer-Encoding: chunked, identity"),
    BAD("Transfer-Encoding: identity, chunked"),
    BAD("Transfer-Encoding: chunked, chunked"),
    BAD("Transfer-Encoding: chunked,"),
    BAD("Transfer-Encoding: ,chunked"),
    BAD("Transfer-Encoding: , chunked"),
    BAD("Transfer-Encoding: chunked;q=1"),
    BAD("Transfer-Encoding: chunked; a=b"),
    BAD("Transfer-Encoding: chunked "),
    BAD("Transfer-Encoding:  chunked"),
    BAD("Transfer-Encoding:\tchunked"),
    BAD("Transfer-Encoding: chunked\t"),
    BAD("Transfer-Encoding:\x0b"
        "chunked"),
    BAD("Transfer-Encoding: chunked\x0b"),
    BAD("Transfer-Encoding: \x0c"
        "chunked"),
    BAD("Transfer-Encoding: \0"
        "chunked"),
    BAD("Transfer-Encoding: chunked\0"),
    BAD("Transfer-Encoding: chunked\x7f"),
    BAD("Transfer-Encoding: \xc2\xa0"
        "chunked"),
    BAD("Transfer-Encoding: Chunked"),
    BAD("Transfer-Encoding: CHUNKED"),
    BAD("Transfer-Encoding: chunKed"),
    BAD("Transfer-Encoding: xchunked"),
    BAD("Transfer-Encoding: chunkedx"),
    BAD("Transfer-Encoding: chunke"),
    BAD("Transfer-Encoding: chun ked"),
    BAD("Transfer-Encoding: \"chunked\""),
    BAD("Transfer-Encoding: 'chunked'"),
    BAD("Transfer-Encoding: [chunked]"),
    BAD("Transfer-Encoding: chunked\r\n , identity"),
    BAD("Transfer-Encoding:\r\n chunked"),
    BAD("Transfer-Encoding: chunked\r\n\t"),
    BAD("Transfer-Encoding : chunked"),
    BAD("Transfer-Encoding\t: chunked"),
    BAD(" Transfer-Encoding: chunked"),
    BAD("X: y\r\n Transfer-Encoding: chunked"),
    BAD("X: y\rTransfer-Encoding: chunked"),
    BAD("X: y\nTransfer-Encoding: chunked"),
    BAD("Transfer-Encoding\0: chunked"),
    BAD("Transfer-Encoding chunked"),
    BAD("Transfer Encoding: chunked"),
    BAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    BAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
    BAD("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
    BAD("Transfer-Encoding: x\r\nTransfer-Encoding: chunked"),
    BAD("Transfer-Encoding:\r\nTransfer-Encoding: chunked"),
    BAD("Transfer-Encoding: chunked\r\ntransfer-encoding: x"),
};

static void test_bodies_whose_end_is_in_doubt(void **state)
{
    (void)state;
    assert_all_refused("POST / HTTP/1.1\r\nHost: h\r\n", framings, COUNT_OF(framings),
                       "\r\n\r\n0\r\n\r\n");
    assert_all_refused("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n",
                       framings, COUNT_OF(framings), "\r\n\r\n0\r\n\r\n");
}

static const struct http_row chunks[] = {
    /* sizes */
    BAD("\r\n\r\n"),
    BAD("x\r\n"),
    BAD("g\r\nhello"),
    BAD(" 5\r\nhello\r\n0\r\n\r\n"),
    BAD("5 \r\nhello\r\n0\r\n\r\n"),
    BAD("\t5\r\nhello\r\n0\r\n\r\n"),
    BAD("5\t\r\nhello\r\n0\r\n\r\n"),
    BAD("+5\r\nhello\r\n0\r\n\r\n"),
    BAD("-5\r\nhello\r\n0\r\n\r\n"),
    BAD("-0\r\n\r\n"),
    BAD("0x5\r\nhello\r\n0\r\n\r\n"),
    BAD("0X5\r\nhello\r\n0\r\n\r\n"),
    BAD("#5\r\nhello\r\n0\r\n\r\n"),
    BAD("5h\r\nhello\r\n0\r\n\r\n"),
    BAD("5.0\r\nhello\r\n0\r\n\r\n"),
    BAD("5,\r\nhello\r\n0\r\n\r\n"),
    BAD("5_0\r\nhello\r\n0\r\n\r\n"),
    BAD("\"5\"\r\nhello\r\n0\r\n\r\n"),
    BAD("5\0\r\nhello\r\n0\r\n\r\n"),
    BAD("\0"
        "5\r\nhello\r\n0\r\n\r\n"),
    BAD("000000005\r\nhello\r\n0\r\n\r\n"),
    BAD("000000000\r\n\r\n"),
    BAD("0000000000000000000000000\r\n\r\n"),
    BAD("100000000\r\n"),
    BAD("100000005\r\nhello\r\n0\r\n\r\n"),
    BAD("ffffffffffffffff\r\n"),
    BAD("10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ROW(413, "ffffffff\r\nhello\r\n0\r\n\r\n"),
    ROW(413, "80000005\r\nhello\r\n0\r\n\r\n"),
    ROW(413, "00100001\r\nhello\r\n0\r\n\r\n"),
    ROW(413, "5\r\nhello\r\nfffffffb\r\nx\r\n0\r\n\r\n"),
    /* extensions */
    BAD("5;\r\nhello\r\n0\r\n\r\n"),
    BAD("5;a\r\nhello\r\n0\r\n\r\n"),
    BAD("5;a=b\r\nhello\r\n0\r\n\r\n"),
    BAD("5;a=\"b\"\r\nhello\r\n0\r\n\r\n"),
    BAD("5; a\r\nhello\r\n0\r\n\r\n"),
    BAD("5 ;a\r\nhello\r\n0\r\n\r\n"),
    BAD("5;\n\r\nhello\r\n0\r\n\r\n"),
    BAD("5;a\nhello\r\n0\r\n\r\n"),
    BAD("5;\rhello\r\n0\r\n\r\n"),
    BAD("0;\r\n\r\n"),
    BAD("0;a=b\r\n\r\n"),
    BAD("5\r\nhello\r\n0;a\r\n\r\n"),
    /* ends of lines */
    BAD("5\nhello\r\n0\r\n\r\n"),
    BAD("5\rhello\r\n0\r\n\r\n"),
    BAD("5\n\rhello\r\n0\r\n\r\n"),
    BAD("5\r\r\nhello\r\n0\r\n\r\n"),
    BAD("5\r\nhello\n0\r\n\r\n"),
    BAD("5\r\nhello\r0\r\n\r\n"),
    BAD("5\r\nhello\n\r0\r\n\r\n"),
    BAD("5\r\nhello0\r\n\r\n"),
    BAD("5\r\nhello  0\r\n\r\n"),
    BAD("5\r\nhello\r\n\r\n0\r\n\r\n"),
    BAD("5\r\nhello!\r\n0\r\n\r\n"),
    BAD("5\r\nhell\r\n0\r\n\r\n"),
    BAD("5\r\nhello\r\n\n0\r\n\r\n"),
    BAD("5\r\nhello\r\n 0\r\n\r\n"),
    BAD("4\r\nhello\r\n0\r\n\r\n"),
    BAD("0\n\n"),
    BAD("0\n\r\n"),
    BAD("0\r\n\n"),
    BAD("0\r\r\n"),
    BAD("0\r\n\r\r\n"),
    BAD("0\r\n\rx"),
    BAD("0\r\n"),
    /* trailers */
    BAD("0\r\nX: y\r\n\r\n"),
    BAD("0\r\nX:\r\n\r\n"),
    BAD("0\r\n X: y\r\n\r\n"),
    BAD("0\r\nContent-Length: 5\r\n\r\n"),
    BAD("0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    BAD("0\r\nHost: i\r\n\r\n"),
    BAD("5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    BAD("0\r\n0\r\n\r\n"),
};

static void test_chunks_that_can_be_read_in_two_ways(void **state)
{
    (void)state;
    assert_all_refused("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", chunks,
                       COUNT_OF(chunks), "");
    assert_all_refused(
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: h\r\nExpect: 100-continue\r\n"
        "Upgrade: h2c\r\nConnection: upgrade, close\r\n\r\n",
        chunks, COUNT_OF(chunks), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_whose_end_is_in_doubt),
        cmocka_unit_test(test_chunks_that_can_be_read_in_two_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
