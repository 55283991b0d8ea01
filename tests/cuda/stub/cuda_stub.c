/*
 * A libcuda.so.1 that plays the cards of a machine. It stands where the NVIDIA driver's library would; all above it is
 * real. Nothing is copied and nothing takes time: what a copy would take is added to the time of its stream, and events
 * tell the difference. So a measurement gives what the description says, at once and always.
 *
 * The cards are described by the text file that the environment variable CUDA_STUB_MACHINE names, which cuInit reads.
 * Without the variable there is no device (100). One fact for each line:
 *
 *   version NUMBER                     12080 for 12.8
 *   traffic PATH                       the file in which the stub of NVML finds what moved over NVLink
 *   gpu N CARD UUID                    N is CUDA's number, CARD that of the machine, counted from 0 without gaps
 *   latency MICROSECONDS               of each copy, besides what its bytes take
 *   staged GB/S                        of copies without peer access
 *   pair CARD CARD GB/S WAY ACCESS     of copies with peer access, in this direction; WAY: nvlink, pcie; half: nvlink,
 *                                      and counters that rise by half of it; ACCESS: 0 or 1
 *   corrupt CARD CARD                  copies in this direction bring something else
 *   set GB/S WAY                       bus bandwidth of an all-reduce
 *   free BYTES                         memory of each card
 *   fabric                             memory can be shared as FABRIC
 *   multicast                          the cards can have multicast objects
 *   error FUNCTION CODE CALLS          this function returns this error, after so many calls
 *   hang FUNCTION CALLS                it says so on stderr and never returns, after so many calls
 *
 * A copy is direct where either card has enabled access to the other.
 *
 * Handles of memory tell which process, card and word they are of; they are accepted under the rules that the driver
 * was seen to have: never in a process with the PID of the one that made them (201), nor where the card is not visible
 * (1).
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { MAX_GPUS = 64, MAX_RULES = 32, MAX_ALLOCATIONS = 1024, MAX_OBJECTS = 4096, TEXT = 128 };
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201, PEER_UNSUPPORTED = 217, ALREADY_ENABLED = 704, NOT_ENABLED = 705, NOT_SUPPORTED = 801,
       UNKNOWN = 999 };
enum { WAY_PCIE, WAY_NVLINK, WAY_HALF };
enum { POSIX_FD = 1, FABRIC = 8 };

typedef int result;
typedef uint64_t pointer;

struct pair {
    double rate;
    int way, access, corrupt, enabled;
};

struct rule {
    char function[TEXT];
    int code, calls, hangs;
};

struct allocation {
    pointer address;
    size_t size;
    unsigned int card, word;
    int mapped;
};

/* What a handle of memory tells of it. */
struct shared {
    char magic[8];
    int pid;
    unsigned int card, word;
    uint64_t size;
};

struct handle {
    struct shared what;
    int types, used;
};

_Static_assert(sizeof(struct shared) <= 64, "fits into a handle");

static struct {
    int version, fabric, multicast, gpu_count, set_way;
    int cards[MAX_GPUS]; /* by CUDA's numbers */
    unsigned char uuids[MAX_GPUS][16];
    double latency, staged, set_rate;
    size_t free_bytes;
    struct pair pairs[MAX_GPUS][MAX_GPUS]; /* by the machine's */
    struct rule rules[MAX_RULES];
    int rule_count;
    uint64_t (*traffic)[2];
} machine;

static int started, current = -1; /* current: CUDA's number */
static double times[MAX_OBJECTS]; /* milliseconds of streams and of events */
static int object_count = 1;
static struct allocation allocations[MAX_ALLOCATIONS];
static pointer next_address = 0x700000000000;
static struct handle handles[MAX_OBJECTS];
static int handle_count = 1;

/* The description */

static int way_of(const char *word)
{
    return strcmp(word, "nvlink") == 0 ? WAY_NVLINK : strcmp(word, "half") == 0 ? WAY_HALF : WAY_PCIE;
}

static int read_uuid(const char *text, unsigned char *uuid)
{
    int count = 0;
    for (text += strncmp(text, "GPU-", 4) == 0 ? 4 : 0; *text && count < 16; text += *text == '-') {
        unsigned int byte;
        if (sscanf(text, "%2x", &byte) != 1)
            return 0;
        uuid[count++] = (unsigned char)byte;
        text += 2;
    }
    return count == 16;
}

static int map_traffic(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    size_t size = sizeof(uint64_t[MAX_GPUS][2]);
    if (file < 0 || ftruncate(file, (off_t)size) != 0)
        return 0;
    machine.traffic = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return machine.traffic != MAP_FAILED;
}

static int read_rule(const char *line, int hangs)
{
    struct rule rule = {.hangs = hangs};
    int read = hangs ? sscanf(line, "hang %127s %d", rule.function, &rule.calls) + 1
                     : sscanf(line, "error %127s %d %d", rule.function, &rule.code, &rule.calls);
    if (read != 3 || machine.rule_count == MAX_RULES)
        return 0;
    machine.rules[machine.rule_count++] = rule;
    return 1;
}

static int read_pair(const char *line)
{
    unsigned int one, other;
    char way[16];
    double rate;
    int access;
    if (sscanf(line, "pair %u %u %lf %15s %d", &one, &other, &rate, way, &access) != 5 || one >= MAX_GPUS || other >= MAX_GPUS)
        return 0;
    machine.pairs[one][other].rate = rate;
    machine.pairs[one][other].way = way_of(way);
    machine.pairs[one][other].access = access;
    return 1;
}

static int read_gpu(const char *line)
{
    int number, card;
    char uuid[64];
    if (sscanf(line, "gpu %d %d %63s", &number, &card, uuid) != 3 || number != machine.gpu_count || card < 0 || card >= MAX_GPUS)
        return 0;
    machine.cards[machine.gpu_count] = card;
    return read_uuid(uuid, machine.uuids[machine.gpu_count++]);
}

static int read_line(char *line)
{
    char key[TEXT], text[4096];
    unsigned int one, other;
    line[strcspn(line, "#\n")] = '\0';
    if (sscanf(line, "%127s", key) != 1)
        return 1;
    if (strcmp(key, "version") == 0)
        return sscanf(line, "version %d", &machine.version) == 1;
    if (strcmp(key, "traffic") == 0)
        return sscanf(line, "traffic %4095s", text) == 1 && map_traffic(text);
    if (strcmp(key, "gpu") == 0)
        return read_gpu(line);
    if (strcmp(key, "latency") == 0)
        return sscanf(line, "latency %lf", &machine.latency) == 1;
    if (strcmp(key, "staged") == 0)
        return sscanf(line, "staged %lf", &machine.staged) == 1;
    if (strcmp(key, "pair") == 0)
        return read_pair(line);
    if (strcmp(key, "corrupt") == 0 && sscanf(line, "corrupt %u %u", &one, &other) == 2 && one < MAX_GPUS && other < MAX_GPUS)
        return machine.pairs[one][other].corrupt = 1;
    if (strcmp(key, "set") == 0 && sscanf(line, "set %lf %15s", &machine.set_rate, text) == 2)
        return machine.set_way = way_of(text), 1;
    if (strcmp(key, "free") == 0)
        return sscanf(line, "free %zu", &machine.free_bytes) == 1;
    if (strcmp(key, "fabric") == 0)
        return machine.fabric = 1;
    if (strcmp(key, "multicast") == 0)
        return machine.multicast = 1;
    if (strcmp(key, "error") == 0 || strcmp(key, "hang") == 0)
        return read_rule(line, strcmp(key, "hang") == 0);
    return 0;
}

static result read_machine(void)
{
    char line[4096 + TEXT];
    const char *path = getenv("CUDA_STUB_MACHINE");
    if (!path || !*path)
        return NO_DEVICE;
    FILE *file = fopen(path, "r");
    if (!file)
        return UNKNOWN;
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        if (!read_line(line)) {
            fprintf(stderr, "cuda_stub: %s:%d is not understood\n", path, number);
            fclose(file);
            return UNKNOWN;
        }
    }
    fclose(file);
    return SUCCESS;
}

/* What every function asks first. The stub of NCCL asks it too. */

API int cuda_stub_refusal(const char *function)
{
    for (int place = 0; place < machine.rule_count; place++) {
        struct rule *rule = &machine.rules[place];
        if (strcmp(rule->function, function) != 0 || rule->calls-- > 0)
            continue;
        if (rule->hangs) {
            fprintf(stderr, "cuda_stub: %s hangs\n", function);
            for (;;)
                pause();
        }
        return rule->code;
    }
    return SUCCESS;
}

#define STARTED()                                                                                                              \
    do {                                                                                                                       \
        if (!started)                                                                                                          \
            return NOT_INITIALIZED;                                                                                            \
        result code_ = cuda_stub_refusal(__func__);                                                                            \
        if (code_)                                                                                                             \
            return code_;                                                                                                      \
    } while (0)

#define IN_CONTEXT()                                                                                                           \
    STARTED();                                                                                                                 \
    if (current < 0)                                                                                                           \
        return INVALID_CONTEXT

static int is_gpu(int number)
{
    return number >= 0 && number < machine.gpu_count;
}

static int number_of(uintptr_t context)
{
    return (int)(context & 0xff) - 1;
}

static struct allocation *find(pointer address)
{
    for (int place = 0; place < MAX_ALLOCATIONS; place++) {
        struct allocation *one = &allocations[place];
        if (one->size && address >= one->address && address < one->address + one->size)
            return one;
    }
    return NULL;
}

static struct allocation *allocate(unsigned int card, size_t size)
{
    for (int place = 0; place < MAX_ALLOCATIONS; place++) {
        if (allocations[place].size)
            continue;
        allocations[place] = (struct allocation){.address = next_address, .size = size, .card = card};
        next_address += (size + 0x1fffff) & ~(size_t)0x1fffff;
        return &allocations[place];
    }
    return NULL;
}

static size_t used_of(unsigned int card)
{
    size_t used = 0;
    for (int place = 0; place < MAX_ALLOCATIONS; place++)
        used += allocations[place].card == card && !allocations[place].mapped ? allocations[place].size : 0;
    return used;
}

static void count(unsigned int source, unsigned int target, double bytes, int way)
{
    if (!machine.traffic || way == WAY_PCIE)
        return;
    machine.traffic[source][0] += (uint64_t)(way == WAY_HALF ? bytes / 2 : bytes);
    machine.traffic[target][1] += (uint64_t)(way == WAY_HALF ? bytes / 2 : bytes);
}

/* cuda.h: initialization, devices */

API result cuInit(unsigned int flags)
{
    (void)flags;
    if (!started) {
        result code = read_machine();
        if (code)
            return code;
    }
    started = 1;
    STARTED();
    return machine.gpu_count ? SUCCESS : NO_DEVICE;
}

API result cuDriverGetVersion(int *version)
{
    STARTED();
    *version = machine.version;
    return SUCCESS;
}

API result cuDeviceGetCount(int *number)
{
    STARTED();
    *number = machine.gpu_count;
    return SUCCESS;
}

API result cuDeviceGet(int *device, int ordinal)
{
    STARTED();
    *device = ordinal;
    return is_gpu(ordinal) ? SUCCESS : INVALID_DEVICE;
}

API result cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    STARTED();
    if (!is_gpu(device))
        return INVALID_DEVICE;
    memcpy(uuid, machine.uuids[device], 16);
    return SUCCESS;
}

API result cuDevicePrimaryCtxRetain(uintptr_t *context, int device)
{
    STARTED();
    if (!is_gpu(device))
        return INVALID_DEVICE;
    *context = (uintptr_t)0xc0de00 | (uintptr_t)(device + 1);
    return SUCCESS;
}

API result cuDevicePrimaryCtxRelease_v2(int device)
{
    STARTED();
    return is_gpu(device) ? SUCCESS : INVALID_DEVICE;
}

API result cuCtxSetCurrent(uintptr_t context)
{
    STARTED();
    current = number_of(context);
    return is_gpu(current) ? SUCCESS : INVALID_CONTEXT;
}

API result cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    STARTED();
    if (!is_gpu(device) || !is_gpu(peer))
        return INVALID_DEVICE;
    *can = machine.pairs[machine.cards[device]][machine.cards[peer]].access;
    return SUCCESS;
}

API result cuDeviceGetP2PAttribute(int *value, int attribute, int source, int target)
{
    STARTED();
    if (attribute != 1 || !is_gpu(source) || !is_gpu(target))
        return INVALID_VALUE;
    *value = machine.pairs[machine.cards[source]][machine.cards[target]].way != WAY_PCIE;
    return SUCCESS;
}

static struct pair *pair_to(uintptr_t context)
{
    int peer = number_of(context);
    return is_gpu(peer) ? &machine.pairs[machine.cards[current]][machine.cards[peer]] : NULL;
}

API result cuCtxEnablePeerAccess(uintptr_t context, unsigned int flags)
{
    IN_CONTEXT();
    struct pair *pair = pair_to(context);
    if (flags || !pair)
        return INVALID_VALUE;
    if (!pair->access)
        return PEER_UNSUPPORTED;
    if (pair->enabled)
        return ALREADY_ENABLED;
    return pair->enabled = 1, SUCCESS;
}

API result cuCtxDisablePeerAccess(uintptr_t context)
{
    IN_CONTEXT();
    struct pair *pair = pair_to(context);
    if (!pair || !pair->enabled)
        return NOT_ENABLED;
    return pair->enabled = 0;
}

/* cuda.h: memory */

API result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    IN_CONTEXT();
    *total = machine.free_bytes;
    *free_bytes = machine.free_bytes - used_of((unsigned int)machine.cards[current]);
    return SUCCESS;
}

API result cuMemAlloc_v2(pointer *address, size_t size)
{
    IN_CONTEXT();
    unsigned int card = (unsigned int)machine.cards[current];
    if (used_of(card) + size > machine.free_bytes)
        return OUT_OF_MEMORY;
    struct allocation *one = allocate(card, size);
    if (!one)
        return OUT_OF_MEMORY;
    *address = one->address;
    return SUCCESS;
}

API result cuMemFree_v2(pointer address)
{
    STARTED();
    struct allocation *one = find(address);
    if (!one || one->address != address)
        return INVALID_VALUE;
    one->size = 0;
    return SUCCESS;
}

API result cuMemsetD32_v2(pointer address, unsigned int word, size_t words)
{
    IN_CONTEXT();
    struct allocation *one = find(address);
    if (!one || words * 4 > one->size)
        return INVALID_VALUE;
    one->word = word;
    return SUCCESS;
}

API result cuMemcpyDtoH_v2(void *to, pointer address, size_t size)
{
    IN_CONTEXT();
    const struct allocation *one = find(address);
    if (!one || size != 4 || address + size > one->address + one->size)
        return INVALID_VALUE;
    memcpy(to, &one->word, 4);
    return SUCCESS;
}

static result copy(pointer target, pointer source, size_t size, uintptr_t stream, int needs_access)
{
    struct allocation *to = find(target);
    const struct allocation *of = find(source);
    if (!to || !of || size > to->size || size > of->size || !stream || stream >= (uintptr_t)object_count)
        return INVALID_VALUE;
    const struct pair *pair = &machine.pairs[of->card][to->card];
    int direct = pair->enabled || machine.pairs[to->card][of->card].enabled || (needs_access && pair->access);
    if (needs_access && !direct && of->card != to->card)
        return INVALID_VALUE;
    double rate = direct ? pair->rate : machine.staged;
    times[stream] += machine.latency / 1000 + (double)size / (rate * 1e6);
    count(of->card, to->card, (double)size, direct ? pair->way : WAY_PCIE);
    to->word = pair->corrupt ? ~of->word : of->word;
    return SUCCESS;
}

API result cuMemcpyPeerAsync(pointer target, uintptr_t target_context, pointer source, uintptr_t source_context, size_t size,
                             uintptr_t stream)
{
    IN_CONTEXT();
    if (!is_gpu(number_of(target_context)) || !is_gpu(number_of(source_context)))
        return INVALID_CONTEXT;
    return copy(target, source, size, stream, 0);
}

API result cuMemcpyDtoDAsync_v2(pointer target, pointer source, size_t size, uintptr_t stream)
{
    IN_CONTEXT();
    return copy(target, source, size, stream, 1);
}

/* cuda.h: streams and events */

static result create(uintptr_t *object)
{
    if (object_count == MAX_OBJECTS)
        object_count = 1; /* those of long ago are not used any more */
    times[object_count] = 0;
    *object = (uintptr_t)object_count++;
    return SUCCESS;
}

API result cuStreamCreate(uintptr_t *stream, unsigned int flags)
{
    (void)flags;
    IN_CONTEXT();
    return create(stream);
}

API result cuStreamDestroy_v2(uintptr_t stream)
{
    (void)stream;
    STARTED();
    return SUCCESS;
}

API result cuStreamSynchronize(uintptr_t stream)
{
    (void)stream;
    IN_CONTEXT();
    return SUCCESS;
}

API result cuEventCreate(uintptr_t *event, unsigned int flags)
{
    (void)flags;
    IN_CONTEXT();
    return create(event);
}

API result cuEventDestroy_v2(uintptr_t event)
{
    (void)event;
    STARTED();
    return SUCCESS;
}

API result cuEventRecord(uintptr_t event, uintptr_t stream)
{
    STARTED();
    times[event] = times[stream];
    return SUCCESS;
}

API result cuEventSynchronize(uintptr_t event)
{
    (void)event;
    STARTED();
    return SUCCESS;
}

API result cuEventElapsedTime(float *milliseconds, uintptr_t start, uintptr_t end)
{
    STARTED();
    *milliseconds = (float)(times[end] - times[start]);
    return SUCCESS;
}

/* For the stub of NCCL: a reduction of so many cards takes its time in each of their streams. */
API int cuda_stub_all_reduce(const int *devices, const uintptr_t *streams, int number, double bytes)
{
    double sent = bytes * 2 * (number - 1) / number;
    for (int place = 0; place < number; place++) {
        unsigned int card = (unsigned int)machine.cards[devices[place]];
        unsigned int next = (unsigned int)machine.cards[devices[(place + 1) % number]];
        times[streams[place]] += sent / (machine.set_rate * 1e6);
        count(card, next, sent, machine.set_way);
    }
    return is_gpu(devices[0]) ? SUCCESS : INVALID_DEVICE;
}

/* cuda.h: memory of other processes */

struct ipc_handle {
    char bytes[64];
};

static struct shared shared_of(const struct allocation *one)
{
    return (struct shared){.magic = "stub", .pid = getpid(), .card = one->card, .word = one->word, .size = one->size};
}

static int is_visible(unsigned int card)
{
    for (int number = 0; number < machine.gpu_count; number++)
        if (machine.cards[number] == (int)card)
            return 1;
    return 0;
}

static result map_shared(const struct shared *what, pointer *address)
{
    if (memcmp(what->magic, "stub", 5) != 0 || !is_visible(what->card))
        return INVALID_VALUE;
    struct allocation *one = allocate(what->card, what->size);
    if (!one)
        return OUT_OF_MEMORY;
    one->word = what->word;
    one->mapped = 1;
    *address = one->address;
    return SUCCESS;
}

API result cuIpcGetMemHandle(struct ipc_handle *handle, pointer address)
{
    IN_CONTEXT();
    const struct allocation *one = find(address);
    if (!one)
        return INVALID_VALUE;
    struct shared what = shared_of(one);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &what, sizeof what);
    return SUCCESS;
}

API result cuIpcOpenMemHandle_v2(pointer *address, struct ipc_handle handle, unsigned int flags)
{
    IN_CONTEXT();
    struct shared what;
    memcpy(&what, &handle, sizeof what);
    if (flags != 1)
        return INVALID_VALUE;
    if (what.pid == getpid())
        return INVALID_CONTEXT;
    return map_shared(&what, address);
}

API result cuIpcCloseMemHandle(pointer address)
{
    return cuMemFree_v2(address);
}

struct location {
    int type, id;
};

struct properties {
    int type, handle_types;
    struct location location;
    void *win32;
    unsigned char flags[8];
};

_Static_assert(sizeof(struct properties) == 32, "CUmemAllocationProp");

API result cuMemGetAllocationGranularity(size_t *granularity, const struct properties *properties, int option)
{
    STARTED();
    (void)option;
    *granularity = 2 * 1024 * 1024;
    return properties->type == 1 && is_gpu(properties->location.id) ? SUCCESS : INVALID_VALUE;
}

static result keep(const struct shared *what, int types, uint64_t *handle)
{
    if (handle_count == MAX_OBJECTS)
        return OUT_OF_MEMORY;
    handles[handle_count] = (struct handle){.what = *what, .types = types, .used = 1};
    *handle = (uint64_t)handle_count++;
    return SUCCESS;
}

API result cuMemCreate(uint64_t *handle, size_t size, const struct properties *properties, unsigned long long flags)
{
    STARTED();
    if (flags || properties->type != 1 || properties->location.type != 1 || !is_gpu(properties->location.id) ||
        size % (2 * 1024 * 1024))
        return INVALID_VALUE;
    if (properties->handle_types == FABRIC && !machine.fabric)
        return NOT_SUPPORTED;
    struct shared what = {.magic = "stub", .pid = getpid(), .card = (unsigned int)machine.cards[properties->location.id],
                          .size = size};
    return keep(&what, properties->handle_types, handle);
}

API result cuMemRelease(uint64_t handle)
{
    STARTED();
    return handle && handle < (uint64_t)handle_count ? SUCCESS : INVALID_VALUE;
}

API result cuMemAddressReserve(pointer *address, size_t size, size_t alignment, pointer wish, unsigned long long flags)
{
    STARTED();
    if (alignment || wish || flags)
        return INVALID_VALUE;
    *address = next_address;
    next_address += size;
    return SUCCESS;
}

API result cuMemAddressFree(pointer address, size_t size)
{
    STARTED();
    return address && size ? SUCCESS : INVALID_VALUE;
}

API result cuMemMap(pointer address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
    STARTED();
    if (offset || flags || !handle || handle >= (uint64_t)handle_count || size != handles[handle].what.size)
        return INVALID_VALUE;
    for (int place = 0; place < MAX_ALLOCATIONS; place++) {
        if (allocations[place].size)
            continue;
        const struct shared *what = &handles[handle].what;
        allocations[place] = (struct allocation){.address = address, .size = size, .card = what->card, .word = what->word,
                                                 .mapped = 1};
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}

API result cuMemUnmap(pointer address, size_t size)
{
    (void)size;
    return cuMemFree_v2(address);
}

struct access {
    struct location location;
    int flags;
};

API result cuMemSetAccess(pointer address, size_t size, const struct access *access, size_t number)
{
    STARTED();
    const struct allocation *one = find(address);
    if (!one || size != one->size || number != 1 || access->flags != 3 || !is_gpu(access->location.id))
        return INVALID_VALUE;
    return SUCCESS;
}

/* The word that memory holds is told with the handle, so it must have been written before. */
static struct shared exported(uint64_t handle)
{
    struct shared what = handles[handle].what;
    for (int place = 0; place < MAX_ALLOCATIONS; place++)
        if (allocations[place].mapped && allocations[place].size == what.size && allocations[place].card == what.card)
            what.word = allocations[place].word;
    return what;
}

API result cuMemExportToShareableHandle(void *to, uint64_t handle, int type, unsigned long long flags)
{
    STARTED();
    if (flags || !handle || handle >= (uint64_t)handle_count || handles[handle].types != type || type != FABRIC)
        return INVALID_VALUE;
    struct shared what = exported(handle);
    memset(to, 0, 64);
    memcpy(to, &what, sizeof what);
    return SUCCESS;
}

API result cuMemImportFromShareableHandle(uint64_t *handle, void *from, int type)
{
    STARTED();
    struct shared what;
    memcpy(&what, from, sizeof what);
    if (type != FABRIC || memcmp(what.magic, "stub", 5) != 0 || !is_visible(what.card))
        return INVALID_VALUE;
    return keep(&what, type, handle);
}

/* cuda.h: multicast. An object is a handle without memory, to which cards and then memory are bound. */

enum { MULTICAST_SUPPORTED = 132, FABRIC_SUPPORTED = 128, MULTICAST_GRANULARITY = 2 * 1024 * 1024 };

struct multicast {
    unsigned int devices;
    size_t size;
    unsigned long long types, flags;
};

static struct {
    unsigned int wanted, added;
    size_t size;
    int bound;
} objects[MAX_OBJECTS];

API result cuDeviceGetAttribute(int *value, int attribute, int device)
{
    STARTED();
    if (!is_gpu(device))
        return INVALID_DEVICE;
    if (attribute != MULTICAST_SUPPORTED && attribute != FABRIC_SUPPORTED)
        return INVALID_VALUE;
    *value = attribute == FABRIC_SUPPORTED ? machine.fabric : machine.multicast;
    return SUCCESS;
}

API result cuMulticastGetGranularity(size_t *granularity, const struct multicast *wanted, int option)
{
    STARTED();
    if (!wanted->devices || option != 1)
        return INVALID_VALUE;
    *granularity = MULTICAST_GRANULARITY;
    return machine.multicast ? SUCCESS : NOT_SUPPORTED;
}

API result cuMulticastCreate(uint64_t *handle, const struct multicast *wanted)
{
    STARTED();
    if (!machine.multicast)
        return NOT_SUPPORTED;
    if (!wanted->devices || wanted->flags || !wanted->size || wanted->size % MULTICAST_GRANULARITY)
        return INVALID_VALUE;
    struct shared what = {.magic = "stub", .pid = getpid(), .size = wanted->size};
    result code = keep(&what, POSIX_FD, handle);
    if (!code) {
        objects[*handle].wanted = wanted->devices;
        objects[*handle].size = wanted->size;
    }
    return code;
}

API result cuMulticastAddDevice(uint64_t handle, int device)
{
    STARTED();
    if (!is_gpu(device) || handle >= MAX_OBJECTS || objects[handle].added == objects[handle].wanted)
        return INVALID_VALUE;
    objects[handle].added++;
    return SUCCESS;
}

API result cuMulticastBindMem(uint64_t handle, size_t offset, uint64_t memory, size_t memory_offset, size_t size,
                              unsigned long long flags)
{
    STARTED();
    if (flags || offset || memory_offset || handle >= MAX_OBJECTS || size > objects[handle].size || !memory ||
        memory >= (uint64_t)handle_count || objects[handle].added != objects[handle].wanted)
        return INVALID_VALUE;
    objects[handle].bound++;
    return SUCCESS;
}

API result cuMulticastUnbind(uint64_t handle, int device, size_t offset, size_t size)
{
    STARTED();
    if (!is_gpu(device) || offset || handle >= MAX_OBJECTS || size > objects[handle].size || !objects[handle].bound)
        return INVALID_VALUE;
    objects[handle].bound--;
    return SUCCESS;
}
