// Forks after the library is loaded, and watches what is written to the reused descriptors 1 and 2.

//go:build ignore

#define _GNU_SOURCE
#include "daemon.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int ends[2]; /* where what is written to descriptors 1 and 2 comes out */

void daemon_start(const char *status_file)
{
    int fd = open(status_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);
    int a[2], b[2];
    pid_t pid;

    if (moved < 0) {
        die("--status-file %s: %s", status_file, strerror(errno));
    }
    close(fd);
    pid = fork();
    if (pid < 0) {
        die("fork: %s", strerror(errno));
    }
    if (pid > 0) {
        exit(0);
    }
    report_to(moved);
    umask(0);
    setsid();
    if (chdir("/") != 0) {
        die("chdir /: %s", strerror(errno));
    }
    for (int i = 0; i < 3; i++) {
        close(i);
    }
    /* The lowest free numbers are used: 0 and 1, then 2 and another. */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, a) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, b) != 0 ||
        a[1] != 1 || b[0] != 2) {
        die("descriptors 1 and 2 were not free");
    }
    ends[0] = a[0];
    ends[1] = b[1];
    report_line("daemon pid %d", (int)getpid());
}

static long drain(int fd)
{
    char buf[4096];
    long total = 0;
    ssize_t n;

    while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
        total += n;
    }
    return total;
}

void daemon_report_writes(void)
{
    long one = drain(ends[0]), two = drain(ends[1]);

    report_line("daemon fd1_bytes %ld fd2_bytes %ld", one, two);
}
