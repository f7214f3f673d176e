// What Fluent Bit's daemon mode does to a loaded plugin.
#ifndef FLBHOST_DAEMON_H
#define FLBHOST_DAEMON_H

/* Forks; the parent exits with status 0. In the child, which goes on, the descriptors 0 to 2 are
   closed and belong to sockets of the host's own, and reports go to the status file. */
void daemon_start(const char *status_file);
/* Reports how many bytes arrived in descriptors 1 and 2 since the last call. */
void daemon_report_writes(void);

#endif
