/* SPDX-License-Identifier: MIT */
/*
 * platform.c: the real machine behind struct dibs_platform: clocks, chance, sleep, the process
 * table, file systems.
 *
 * The idea of a process: a pid alone says little, because the kernel uses it again. A process is
 * known by its pid and its start, written "<first 8 of the boot id>:<start in clock ticks since
 * boot>".
 *
 *   1. "Dead" takes work away from somebody, so it is said only on proof: the kernel knows no such
 *      pid, or the pid now belongs to a process with another start, or all that is left is a
 *      zombie. Whatever cannot be seen is alive.
 *   2. No function here keeps state except the boot id, which is read once.
 *
 * Linux only, and only of this process's own pid name space: comparing hosts comes before asking
 * here.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base.h"
#include "str.h"

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t real_wall_ms(void *context)
{
    (void)context;
    return clock_ms(CLOCK_REALTIME);
}

static int64_t real_steady_ms(void *context)
{
    (void)context;
    return clock_ms(CLOCK_MONOTONIC);
}

static void real_sleep_ms(void *context, int64_t ms)
{
    (void)context;
    if (ms <= 0)
        return;
    /* To an instant, not for a time: a signal then neither shortens nor lengthens it. */
    struct timespec until = {0};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

static void real_random(void *context, void *out, size_t bytes)
{
    (void)context;
    unsigned char *at = out;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort(); /* a machine without chance would hand out ids twice */
        at += got;
        bytes -= (size_t)got;
    }
}

static void real_host(void *context, char out[129])
{
    (void)context;
    if (gethostname(out, 129) != 0 || out[0] == '\0')
        str_fit(out, 129, "localhost");
    out[128] = '\0';
}

/* ---- processes ------------------------------------------------------------------------------- */

/* read_small: the first bytes of a file as text; false, and errno, when it cannot be read. */
static bool read_small(const char *path, char *out, size_t out_bytes)
{
    size_t length = 0;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    do {
        got = read(fd, out + length, out_bytes - 1 - length);
        if (got > 0)
            length += (size_t)got;
    } while ((got > 0 && length < out_bytes - 1) || (got < 0 && errno == EINTR));
    close(fd);
    out[length] = '\0';
    return got >= 0;
}

static pthread_once_t boot_once = PTHREAD_ONCE_INIT;
static char boot_text[64];

static void read_boot_id(void)
{
    if (!read_small("/proc/sys/kernel/random/boot_id", boot_text, sizeof boot_text))
        boot_text[0] = '\0';
    boot_text[strcspn(boot_text, "\n")] = '\0';
    if (boot_text[0] == '\0')
        str_fit(boot_text, sizeof boot_text, "unknown");
}

static void real_boot_id(void *context, char out[64])
{
    (void)context;
    pthread_once(&boot_once, read_boot_id);
    str_fit(out, 64, boot_text);
}

enum sight { SEEN, GONE, UNSEEN };

/* own_pids: which pids this process sees (its pid namespace), as ":4026531836"; "" when unknown. */
static void own_pids(char out[32])
{
    char link[64] = "";
    ssize_t got = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    char *number = got > 0 ? strchr(link, '[') : NULL;
    out[0] = '\0';
    if (number != NULL)
        snprintf(out, 32, ":%.*s", (int)strspn(number + 1, "0123456789"), number + 1);
}

/* field: the start of field number `wanted` in what follows the command name in /proc/PID/stat,
 * whose first is 3. */
static const char *field(const char *text, int wanted)
{
    for (int number = 3; text != NULL && number < wanted; number++) {
        text = strchr(text, ' ');
        if (text != NULL)
            text++;
    }
    return text;
}

/* look: what /proc tells of a process. GONE: a zombie; its work is over, though the pid is not
 * free yet. */
static enum sight look(int64_t pid, char start[64])
{
    char path[64], stat[1024], boot[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (!read_small(path, stat, sizeof stat))
        return UNSEEN;
    char *text =
        strrchr(stat, ')'); /* the command name may hold anything, blanks and brackets too */
    if (text == NULL || text[1] != ' ')
        return UNSEEN;
    text += 2;
    const char *threads = field(text, 20), *ticks = field(text, 22);
    if (ticks == NULL)
        return UNSEEN;
    /* A main thread that has ended is shown as Z too, while its other threads run on. */
    if (*text == 'X' || (*text == 'Z' && strtol(threads, NULL, 10) <= 1))
        return GONE;
    char pids[32];
    own_pids(pids);
    real_boot_id(NULL, boot);
    snprintf(start, 64, "%.8s:%.*s%s", boot, (int)strspn(ticks, "0123456789"), ticks, pids);
    return SEEN;
}

static bool real_process_start(void *context, int64_t pid, char out[64])
{
    (void)context;
    char start[64];
    if (pid <= 0 || look(pid, start) != SEEN)
        return false;
    str_fit(out, 64, start);
    return true;
}

/* is_elsewhere: whether the start (boot:ticks[:pids]) was read where other pids are seen: in
 * another container the same pid is another process. */
static bool is_elsewhere(const char *start)
{
    char pids[32];
    own_pids(pids);
    const char *theirs = start != NULL ? strchr(start, ':') : NULL;
    theirs = theirs != NULL ? strchr(theirs + 1, ':') : NULL;
    return theirs != NULL && !str_eq(theirs, pids);
}

static enum dibs_process real_process_state(void *context, int64_t pid, const char *start)
{
    (void)context;
    char now[64];
    if (pid <= 0 || pid > INT_MAX || is_elsewhere(start))
        return DIBS_PROCESS_UNKNOWN;
    if (kill((pid_t)pid, 0) != 0 && errno != EPERM)
        return errno == ESRCH ? DIBS_PROCESS_DEAD : DIBS_PROCESS_UNKNOWN;
    switch (look(pid, now)) {
    case GONE: return DIBS_PROCESS_DEAD;
    case UNSEEN:
        return DIBS_PROCESS_ALIVE; /* /proc hides it, but the kernel has just said it is there */
    case SEEN: break;
    }
    if (start == NULL || start[0] == '\0' || str_eq(start, now))
        return DIBS_PROCESS_ALIVE;
    return DIBS_PROCESS_DEAD;
}

/* ---- file systems ---------------------------------------------------------------------------- */

static const struct {
    uint32_t magic; /* statfs(2) */
    const char *name;
} network_types[] = {
    {0x6969, "nfs"},      {0x517B, "smb"},      {0xFF534D42, "cifs"}, {0xFE534D42, "smb2"},
    {0x01021997, "9p"},   {0x5346414F, "afs"},  {0x6B414653, "afs"},  {0x00C36400, "ceph"},
    {0x65735546, "fuse"}, {0x73757245, "coda"}, {0x564C, "ncp"},      {0x0BD00BD0, "lustre"},
    {0x47504653, "gpfs"},
}; /* virtiofs and sshfs are fuse to statfs */

/* parent: cuts the last name off path; false when there is none left. */
static bool parent(char *path)
{
    size_t length = strlen(path);
    if (str_eq(path, "/") || str_eq(path, "."))
        return false;
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0)
        path[length++] = '.';
    path[length] = '\0';
    return true;
}

static const char *real_network_fs(void *context, const char *path)
{
    (void)context;
    char at[PATH_MAX];
    struct statfs fs = {0};
    if (path == NULL || path[0] == '\0' || strlen(path) >= sizeof at)
        return NULL;
    str_fit(at, sizeof at, path);
    while (statfs(at, &fs) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != ENOENT || !parent(at)) /* what is yet to be made will be where its parent is */
            return NULL;
    }
    for (size_t i = 0; i < COUNT_OF(network_types); i++) {
        if (network_types[i].magic == (uint32_t)fs.f_type)
            return network_types[i].name;
    }
    return NULL;
}

const struct dibs_platform *dibs_platform_real(void)
{
    static const struct dibs_platform real = {
        .wall_ms = real_wall_ms,
        .steady_ms = real_steady_ms,
        .boot_id = real_boot_id,
        .sleep_ms = real_sleep_ms,
        .random = real_random,
        .host = real_host,
        .process_start = real_process_start,
        .process_state = real_process_state,
        .network_fs = real_network_fs,
    };
    return &real;
}
