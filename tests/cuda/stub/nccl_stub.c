/*
 * A libnccl.so.2 above the stub of CUDA, which knows how fast an all-reduce is and which way it takes. All
 * ranks are of one process.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { MAX_RANKS = 64, VERSION = 22703, FLOAT32 = 7, SUM = 0 };
enum { SUCCESS = 0, UNHANDLED_CUDA_ERROR = 1, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

typedef int result;

static int (*refusal)(const char *);
static int (*all_reduce)(const int *, const uintptr_t *, int, double);

static int rank_count, depth, queued;
static int devices[MAX_RANKS];
static uintptr_t streams[MAX_RANKS];
static double bytes;

static int find_cuda(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    if (!cuda)
        return 0;
    *(void **)&refusal = dlsym(cuda, "cuda_stub_refusal");
    *(void **)&all_reduce = dlsym(cuda, "cuda_stub_all_reduce");
    return refusal && all_reduce;
}

#define ALLOWED()                                                                                                              \
    do {                                                                                                                       \
        if (!refusal && !find_cuda())                                                                                          \
            return UNHANDLED_CUDA_ERROR;                                                                                       \
        result code_ = refusal(__func__);                                                                                      \
        if (code_)                                                                                                             \
            return code_;                                                                                                      \
    } while (0)

API result ncclGetVersion(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

/* NCCL_STUB_LAST_ERROR, as NCCL keeps the text of the last warning before a failure. */
API const char *ncclGetLastError(uintptr_t communicator)
{
    (void)communicator;
    const char *said = getenv("NCCL_STUB_LAST_ERROR");
    return said ? said : "";
}

/* As NCCL does: a line of its configuration file is a variable that is not set otherwise. */
static void read_settings(void)
{
    const char *path = getenv("NCCL_CONF_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096];
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, '=');
        line[strcspn(line, "\n")] = 0;
        if (!value || line[0] == '#')
            continue;
        *value = 0;
        setenv(line, value + 1, 0);
    }
    if (file)
        fclose(file);
}

/* What NCCL finds by itself: STUB_NCCL_FINDS has the topology of the machine. */
static void dump_topology(void)
{
    const char *from = getenv("STUB_NCCL_FINDS"), *to = getenv("NCCL_TOPO_DUMP_FILE");
    FILE *read = from ? fopen(from, "r") : NULL, *written = read && to ? fopen(to, "w") : NULL;
    for (int byte = 0; written && (byte = fgetc(read)) != EOF;)
        fputc(byte, written);
    if (read)
        fclose(read);
    if (written)
        fclose(written);
}

/* As NCCL does: it says which file it was given, and starts with none that has a tab. */
static int takes_topology_file(void)
{
    const char *path = getenv("NCCL_TOPO_FILE"), *log_path = getenv("NCCL_DEBUG_FILE");
    FILE *file = path ? fopen(path, "r") : NULL, *log = log_path ? fopen(log_path, "a") : NULL;
    int has_tab = 0;
    for (int byte = 0; file && (byte = fgetc(file)) != EOF;)
        has_tab |= byte == '\t';
    if (log && path)
        fprintf(log, "host:1:1 [0] NCCL INFO NCCL_TOPO_FILE set by environment to %s\n", path);
    if (log && path && !file)
        fprintf(log, "host:1:1 [0] NCCL INFO Could not open XML topology file %s : No such file or directory\n", path);
    if (log && !has_tab)
        fprintf(log, "host:1:1 [0] NCCL INFO === System : maxBw 370.8 totalBw 370.8 ===\n");
    if (log)
        fclose(log);
    if (file)
        fclose(file);
    return !has_tab;
}

API result ncclCommInitAll(uintptr_t *communicators, int number, const int *ordinals)
{
    ALLOWED();
    if (number < 1 || number > MAX_RANKS)
        return INVALID_ARGUMENT;
    read_settings();
    if (!takes_topology_file())
        return INTERNAL_ERROR;
    dump_topology();
    for (int rank = 0; rank < number; rank++) {
        devices[rank] = ordinals[rank];
        communicators[rank] = (uintptr_t)(rank + 1);
    }
    rank_count = number;
    return SUCCESS;
}

API result ncclCommDestroy(uintptr_t communicator)
{
    ALLOWED();
    return communicator ? SUCCESS : INVALID_ARGUMENT;
}

static result reduce(void)
{
    if (queued != rank_count)
        return INVALID_USAGE;
    queued = 0;
    return all_reduce(devices, streams, rank_count, bytes) ? UNHANDLED_CUDA_ERROR : SUCCESS;
}

API result ncclAllReduce(const void *from, void *to, size_t number, int type, int operation, uintptr_t communicator,
                         uintptr_t stream)
{
    ALLOWED();
    if (!from || !to || type != FLOAT32 || operation != SUM || !communicator || communicator > (uintptr_t)rank_count)
        return INVALID_ARGUMENT;
    streams[communicator - 1] = stream;
    bytes = (double)number * 4;
    queued++;
    return depth ? SUCCESS : reduce();
}

API result ncclGroupStart(void)
{
    ALLOWED();
    depth++;
    return SUCCESS;
}

API result ncclGroupEnd(void)
{
    ALLOWED();
    return --depth ? SUCCESS : reduce();
}
