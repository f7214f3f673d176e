// This file keeps Fluent Bit's daemon mode out of Go. That mode forks after the
// library was loaded and the plugin registered; in the child the other threads
// of Go's runtime are gone, and entering Go may then wait for one of them for
// ever. So the two callbacks that Fluent Bit makes in such a child are C until
// it is known that this process is the one that registered.

#include <sys/types.h>
#include <unistd.h>

#include "_cgo_export.h"

static pid_t registered;

__attribute__((visibility("hidden"))) void k8saudit_note_process(void)
{
    registered = getpid();
}

static int forked(void)
{
    return registered != 0 && getpid() != registered;
}

// FLB_ERROR (0) ends the start. Nothing is written: file descriptors 1 and 2 may
// be Fluent Bit's own pipes by now.
int FLBPluginInit(void *plugin)
{
    return forked() ? 0 : k8sauditInit(plugin);
}

void FLBPluginUnregister(void *def)
{
    if (!forked()) {
        k8sauditUnregister(def);
    }
}
