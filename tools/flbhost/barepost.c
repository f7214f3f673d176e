// A bare POST on a kept connection: one write, one answer.

//go:build ignore

#define _GNU_SOURCE
#include "barepost.h"

#include "report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd = -1;
static char *request;
static size_t request_size;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void read_body(const char *path, const char *address)
{
    FILE *f = fopen(path, "re");
    char header[256];
    long size;
    int n;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
        die("%s: %s", path, strerror(errno));
    }
    rewind(f);
    n = snprintf(header, sizeof(header), "POST /audit HTTP/1.1\r\nHost: %s\r\n"
                 "Content-Type: application/json\r\nContent-Length: %ld\r\n\r\n", address, size);
    request_size = (size_t)n + (size_t)size;
    request = malloc(request_size);
    if (request == NULL) {
        die("%s: %s", path, strerror(ENOMEM));
    }
    memcpy(request, header, (size_t)n);
    if (fread(request + n, 1, (size_t)size, f) != (size_t)size) {
        die("%s: cannot be read", path);
    }
    fclose(f);
}

void barepost_open(const struct options *o)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[64];
    int port, one = 1;

    if (o->post_to == NULL) {
        return;
    }
    if (sscanf(o->post_to, "%63[0-9.]:%d", host, &port) != 2 || port < 1 || port > 65535 ||
        inet_pton(AF_INET, host, &to.sin_addr) != 1) {
        die("--post-to %s: want ADDRESS:PORT, such as 127.0.0.1:8080", o->post_to);
    }
    to.sin_port = htons((uint16_t)port);
    read_body(o->post_body, o->post_to);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        die("--post-to %s: %s", o->post_to, strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* as Go does */
}

/* Whether all of an answer is there. */
static int answered(const char *text, size_t size)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "\r\nContent-Length:");

    if (end == NULL) {
        return 0;
    }
    if (strncmp(text, "HTTP/1.1 200 ", 13) != 0 || length == NULL || length > end) {
        die("--post-to: want 200 and a Content-Length, not: %.60s", text);
    }
    return size >= (size_t)(end + 4 - text) + (size_t)atol(length + 17);
}

int64_t barepost(void)
{
    char answer[4096];
    size_t sent = 0, got = 0;
    int64_t start;

    if (fd < 0) {
        return -1;
    }
    pthread_mutex_lock(&turn);
    start = now_ns();
    while (sent < request_size) {
        ssize_t n = send(fd, request + sent, request_size - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            die("--post-to: %s", strerror(errno));
        }
        sent += n < 0 ? 0 : (size_t)n;
    }
    do {
        ssize_t n = recv(fd, answer + got, sizeof(answer) - 1 - got, 0);

        if (n == 0 || (n < 0 && errno != EINTR)) {
            die("--post-to: the answer is cut short");
        }
        got += n < 0 ? 0 : (size_t)n;
        answer[got] = '\0';
    } while (!answered(answer, got));
    start = now_ns() - start;
    pthread_mutex_unlock(&turn);
    return start;
}
