/* SPDX-License-Identifier: MIT */
/*
 * main.c: the process around the command line.
 *
 * What must hold before anything else runs: a reader that hangs up is an error of write(), not the
 * end of the process; widths of characters are known whatever the locale; and descriptors 0, 1 and
 * 2 are taken, so that no file of the store can ever be opened as one of them and be written to by
 * a printf.
 */
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

#include "base/str.h"

/* fill_descriptors: a closed 0, 1 or 2 becomes one that reads nothing and cannot be written to. */
static bool fill_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (!fill_descriptors())
        return EXIT_BAD;
    signal(SIGPIPE, SIG_IGN);
    if (setlocale(LC_CTYPE, "") == NULL || !str_eq(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
    return cli_main(argc, argv);
}
