/* SPDX-License-Identifier: MIT */
/*
 * listen_address.c: what --listen may say: "7117", "127.0.0.1:7117", "[::1]:7117", "::1",
 * "0.0.0.0:80", "unix:/run/dibs.sock". Names are not looked up: an address says what is meant.
 */
#include "listen_private.h"

#include <arpa/inet.h>

#include "base/str.h"
#include "server.h"

static dibs_status refuse(const char *text, struct dibs_error *err)
{
    return error_set(err, DIBS_INVALID_REQUEST,
                     "cannot listen on '%s': write it as PORT, ADDRESS:PORT, [ADDRESS]:PORT or "
                     "unix:PATH, with an address in numbers",
                     text);
}

static bool read_port(const char *text, int *out)
{
    int64_t number = 0;
    if (!str_to_int(text, &number) || number < 0 || number > 65535)
        return false;
    *out = (int)number;
    return true;
}

/* split: "[::1]:80", "::1", "1.2.3.4:80", "80" into address and port. */
static bool split(const char *text, char host[64], int *port)
{
    const char *bracket = strchr(text, ']'), *colon = strrchr(text, ':');
    size_t bytes = strlen(text);
    *port = SERVER_PORT;
    if (text[0] == '[') {
        if (bracket == NULL || (bracket[1] != '\0' && bracket[1] != ':'))
            return false;
        if (bracket[1] == ':' && !read_port(bracket + 2, port))
            return false;
        bytes = (size_t)(bracket - text) - 1;
        text++;
    } else if (colon != NULL && strchr(text, ':') == colon) {
        if (!read_port(colon + 1, port))
            return false;
        bytes = (size_t)(colon - text);
    } else if (colon == NULL && read_port(text, port)) {
        text = "127.0.0.1";
        bytes = strlen(text);
    }
    if (bytes == 0 || bytes >= 64)
        return false;
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    return true;
}

static bool is_loopback(const struct sockaddr_storage *at)
{
    if (at->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)at)->sin6_addr);
}

static bool is_any(const struct sockaddr_storage *at)
{
    if (at->ss_family == AF_INET)
        return ((const struct sockaddr_in *)at)->sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)at)->sin6_addr);
}

void address_describe(struct address *out)
{
    out->loopback = is_loopback(&out->at);
    out->any = is_any(&out->at);
}

dibs_status address_read(const char *text, struct address *out, struct dibs_error *err)
{
    char host[64] = "";
    int port = 0;
    *out = (struct address){0};
    if (str_starts(text, "unix:")) {
        out->path = text + strlen("unix:");
        return out->path[0] != '\0' ? DIBS_OK : refuse(text, err);
    }
    if (!split(text, host, &port))
        return refuse(text, err);
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)&out->at) != 0 &&
        uv_ip6_addr(host, port, (struct sockaddr_in6 *)&out->at) != 0)
        return refuse(text, err);
    address_describe(out);
    return DIBS_OK;
}

void address_host(const struct sockaddr_storage *at, char *out, size_t bytes, int *port)
{
    if (at->ss_family == AF_INET6) {
        uv_ip6_name((const struct sockaddr_in6 *)at, out, bytes);
        *port = ntohs(((const struct sockaddr_in6 *)at)->sin6_port);
    } else {
        uv_ip4_name((const struct sockaddr_in *)at, out, bytes);
        *port = ntohs(((const struct sockaddr_in *)at)->sin_port);
    }
}
