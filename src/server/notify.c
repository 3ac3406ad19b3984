/* SPDX-License-Identifier: MIT */
/*
 * notify.c: systemd's readiness protocol, which is one datagram: "READY=1", "STOPPING=1" to the
 * socket named in NOTIFY_SOCKET. Written here rather than taken from libsystemd, which would bring
 * several libraries along for it; systemd documents the protocol for exactly this use.
 */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server_private.h"

void notify_systemd(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t bytes = path != NULL ? strlen(path) : 0;
    if (bytes < 2 || bytes >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(to.sun_path, path, bytes);
    if (path[0] == '@')
        to.sun_path[0] = '\0'; /* an abstract name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, size);
    close(fd);
}
