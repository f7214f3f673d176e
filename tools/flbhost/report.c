// Counts what happened and prints it.

//go:build ignore

#define _GNU_SOURCE
#include "report.h"

#include "proxy.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One host a process: the state is the module's own. */
static const struct options *opts;
static int out_fd = STDERR_FILENO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards flushes, max_flush, latency */
static FILE *latency, *gap;
static long chunks, ok, retries, errors, flushes;
static int64_t max_flush, exit_time, gap_due, gap_last, max_gap;

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static FILE *create(const char *path)
{
    FILE *f;

    if (path == NULL) {
        return NULL;
    }
    f = fopen(path, "we");
    if (f == NULL) {
        die("%s: %s", path, strerror(errno));
    }
    return f;
}

void report_open(const struct options *o)
{
    opts = o;
    latency = create(o->latency);
    gap = create(o->gap_output);
}

void report_to(int fd)
{
    out_fd = fd;
}

/* One write a line, so that lines of several threads do not mix. */
static void print(const char *format, va_list ap)
{
    char line[1024] = "flbhost: ";
    size_t n = strlen(line);
    int m = vsnprintf(line + n, sizeof(line) - n - 1, format, ap);

    if (m > 0) {
        n += (size_t)m < sizeof(line) - n - 1 ? (size_t)m : sizeof(line) - n - 2;
    }
    line[n++] = '\n';
    if (write(out_fd, line, n) < 0) {
        return; /* nobody left to tell */
    }
}

void report_line(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print(format, ap);
    va_end(ap);
}

void report_detail(const char *format, ...)
{
    va_list ap;

    if (opts == NULL || !opts->verbose) {
        return;
    }
    va_start(ap, format);
    print(format, ap);
    va_end(ap);
}

void die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print(format, ap);
    va_end(ap);
    _exit(1); /* the plugin's threads may run: no destructors under them */
}

void report_flush(int64_t ns, int64_t post_ns)
{
    pthread_mutex_lock(&lock);
    flushes++;
    if (ns > max_flush) {
        max_flush = ns;
    }
    if (latency != NULL) {
        fprintf(latency, "%lld", (long long)(ns / 1000));
        if (post_ns >= 0) {
            fprintf(latency, " %lld", (long long)(post_ns / 1000));
        }
        fputc('\n', latency);
    }
    pthread_mutex_unlock(&lock);
}

void report_chunk(void)
{
    chunks++;
    if (opts->rss_every > 0 && chunks % opts->rss_every == 0) {
        report_rss();
    }
}

long report_answer(int answer)
{
    switch (answer) {
    case FLB_OK: ok++; break;
    case FLB_RETRY: retries++; break;
    default: errors++; break;
    }
    return ok + retries + errors;
}

void report_exit(int64_t ns)
{
    exit_time += ns;
}

int64_t report_gap_due(void)
{
    return gap == NULL ? INT64_MAX : gap_due;
}

void report_gap(int64_t now, int restart)
{
    struct timespec t;

    if (gap == NULL || (!restart && now < gap_due)) {
        return;
    }
    if (!restart && now - gap_last > max_gap) {
        max_gap = now - gap_last;
    }
    gap_last = now;
    gap_due = now + (int64_t)(opts->gap_interval * 1e9);
    clock_gettime(CLOCK_REALTIME, &t);
    fprintf(gap, "%lld.%03ld\n", (long long)t.tv_sec, t.tv_nsec / 1000000);
    fflush(gap);
}

static long status_value(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at == NULL ? -1 : atol(at + strlen(key));
}

void report_rss(void)
{
    char text[4096];
    size_t n = 0;
    int fds = -3; /* without ".", ".." and the folder itself */
    FILE *f;
    DIR *d;

    if (!opts->rss) {
        return;
    }
    if ((f = fopen("/proc/self/status", "re")) != NULL) {
        n = fread(text, 1, sizeof(text) - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    if ((d = opendir("/proc/self/fd")) != NULL) {
        while (readdir(d) != NULL) {
            fds++;
        }
        closedir(d);
    }
    report_line("rss chunks %ld vmrss_kb %ld anon_kb %ld threads %ld fds %d", chunks,
                status_value(text, "VmRSS:"), status_value(text, "RssAnon:"),
                status_value(text, "Threads:"), fds);
}

static long long ms(int64_t ns)
{
    return (long long)((ns + 500000) / 1000000);
}

void report_summary(long left)
{
    report_line("chunks %ld ok %ld retries %ld errors %ld left %ld flushes %ld max_flush_ms %lld "
                "exit_ms %lld gap_ms %lld", chunks, ok, retries, errors, left, flushes,
                ms(max_flush), ms(exit_time), ms(max_gap));
    if (latency != NULL && fclose(latency) != 0) {
        report_line("--latency: %s", strerror(errno));
    }
    if (gap != NULL && fclose(gap) != 0) {
        report_line("--gap-output: %s", strerror(errno));
    }
}
