// What the host tells: counters, gaps, latencies, memory, and the summary line.
#ifndef FLBHOST_REPORT_H
#define FLBHOST_REPORT_H

#include "options.h"

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
int64_t now_ns(void);

/* Opens the files. Call once, before any thread. Reports go to standard error. */
void report_open(const struct options *o);
/* From now on they go to this file descriptor: a daemon's standard error is closed. */
void report_to(int fd);

/* One line, prefixed `flbhost: `. Any thread. */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, only with --verbose. */
void report_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The line, then the end of the process with status 1. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Any thread. post_ns: of the bare POST that followed, -1 if none did. */
void report_flush(int64_t ns, int64_t post_ns);
/* The rest is for the engine's thread. */
void report_chunk(void);
/* Returns how many answers there were so far. */
long report_answer(int answer);
void report_exit(int64_t ns);
/* When the gap output writes next; INT64_MAX without one. */
int64_t report_gap_due(void);
/* Writes its line if it is due. restart: what was before is no gap. */
void report_gap(int64_t now, int restart);
void report_rss(void);
/* The stable last line. */
void report_summary(long left);

#endif
