/*
 * A libnvidia-ml.so.1 that plays a machine. It stands where the NVIDIA driver's library would; all above it is real: the
 * Python bindings, and what calls them.
 *
 * The number of calls of functions that need a started NVML is what nvml_stub_calls() gives.
 *
 * The machine is described by the text file that the environment variable NVML_STUB_MACHINE names. It is read by each
 * nvmlInit that starts NVML, so that one process can play one machine after another. Without the variable no driver is
 * loaded (9). A file that cannot be read is an unknown error (999), and stderr says which line is wrong.
 *
 * It also does what the container runtime does for a driver's library: of NVIDIA_VISIBLE_DEVICES, where that is set, it
 * shows the GPUs whose UUIDs are listed, numbered anew in the machine's order; all of them for "all".
 *
 * One fact for each line; words are separated by blanks; # begins a comment; a text runs to the end of its line.
 *
 *   driver TEXT                        version of the driver
 *   cuda NUMBER                        12080 for 12.8
 *   error FUNCTION CODE                this function returns this error, for all GPUs; 13 stands for a symbol that an
 *                                      old driver does not have
 *   count NUMBER                       the driver says that it has so many GPUs, without having more
 *   hang FUNCTION                      this function says so on stderr and never returns
 *   traffic PATH                       a file of the stub of CUDA: two counters of 64 bits for each GPU, the bytes that its
 *                                      links have sent and received; fields 138 and 139 give each link's part,
 *                                      read when they are asked for
 *   late NUMBER                        so many readings of a GPU's fields after its traffic changed still show, and are
 *                                      dated as, the one before the change
 *   p2p ONE OTHER STATUS               two GPUs have this nvmlGpuP2PStatus_t, both ways; 0 unless said
 *   ancestor ONE OTHER LEVEL           and this nvmlGpuTopologyLevel_t; not supported (3) unless said
 *   gpu N uuid TEXT                    N counts from 0 without gaps; each of these lines creates the GPU
 *   gpu N bus TEXT                     00000000:1B:00.0
 *   gpu N name TEXT
 *   gpu N minor NUMBER
 *   gpu N capability MAJOR MINOR
 *   gpu N memory BYTES
 *   gpu N numa NUMBER                  the NUMA node that its own memory is; -1 for none
 *   gpu N affinity WORD...             CPU mask in hexadecimal words of 64 bits, the least significant first
 *   gpu N mig CURRENT PENDING
 *   gpu N pcie GENERATION WIDTH        the most that GPU and slot can do
 *   gpu N c2c LINK up|down MBPS
 *   gpu N fabric STATE STATUS CLIQUE UUID [MASK]    numbers, 32 hexadecimal digits, and those of the mask of its health
 *   gpu N link LINK STATE TYPE REMOTE [no-p2p]
 *                                      STATE: up, down, sleep, blocked (traffic disabled)
 *                                      TYPE: gpu, switch, cpu, unknown (255); - for not supported (3)
 *                                      REMOTE: a bus id; - for not supported; empty, or garbage that is no text
 *   gpu N slots NUMBER P2P CODE        of numbers below NUMBER, those of links that the GPU does not have answer too: P2P
 *                                      capability P2P (0 or 1), state down or, if it is not 0, the error CODE, remote
 *                                      type unknown, remote bus id empty. NVIDIA's own mock of an A100 is 18 0 0
 *   gpu N field ID CODE                this field value has this error
 *   gpu N value ID SCOPE TYPE VALUE    this field value is VALUE, of a type: double, uint, ulong, ulonglong, slonglong,
 *                                      sint, ushort; of the type "new", which nvml.h does not have
 *   gpu N utilization GPU MEMORY       per cent
 *   gpu N used BYTES                   of its memory, without RESERVED; 0 unless said
 *   gpu N reserved BYTES               that the driver keeps; the first form of the memory information counts it as used
 *   gpu N processes NUMBER             with a context of CUDA on it; 0 unless said
 *   gpu N error FUNCTION CODE          this function returns this error for this GPU; * stands for all functions that
 *                                      take a handle
 *   gpu N lost                         there is not even a handle: GPU is lost (15)
 *
 * The number of links (field 91) is that of the links described, for GPUs that have some. All field values were read at
 * the same time. Of one with an error type and value are undefined: all bits are set.
 *
 * What a GPU does not describe is not supported (3). A link in a gap is not supported; one beyond the last is an invalid
 * argument (2). Handles die with nvmlShutdown, as those of NVML may.
 */

#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { MAX_GPUS = 64, MAX_LINKS = 36, MAX_WORDS = 128, MAX_ERRORS = 128, MAX_VALUES = 512, TEXT = 256 };

/* nvmlReturn_t */
enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15, VERSION_MISMATCH = 25, UNKNOWN = 999
};

/* Field ids of nvml.h. */
enum { NVLINK_LINK_COUNT = 91, NVLINK_THROUGHPUT_DATA_TX = 138, NVLINK_THROUGHPUT_DATA_RX = 139, NVLINK_GET_STATE = 165,
       C2C_LINK_COUNT = 170, C2C_LINK_GET_STATUS = 171, C2C_LINK_GET_MAX_BW = 172 };

/* nvmlValueType_t */
enum { DOUBLE = 0, UNSIGNED_INT = 1, UNSIGNED_LONG = 2, UNSIGNED_LONG_LONG = 3, SIGNED_LONG_LONG = 4, SIGNED_INT = 5,
       UNSIGNED_SHORT = 6 };

/* When all field values were read, in microseconds since 1970. */
#define TIMESTAMP 1700000000000000

typedef unsigned int nvml_return;
typedef void *nvml_device;

typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_info;

typedef struct {
    unsigned long long total, free, used;
} memory_info;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} memory_info_v2;

typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} process_info;

typedef struct {
    unsigned int gpu, memory;
} utilization;

typedef struct {
    unsigned int field_id, scope_id;
    int64_t timestamp, latency_usec;
    unsigned int value_type;
    nvml_return result;
    union {
        double d;
        int si;
        unsigned int ui;
        unsigned long ul;
        unsigned long long ull;
        signed long long sll;
        unsigned short us;
    } value;
} field_value;

typedef struct {
    unsigned int version;
    unsigned char cluster_uuid[16];
    nvml_return status;
    unsigned int clique_id, state, health_mask;
} fabric_info;

_Static_assert(sizeof(pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(field_value) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(memory_info_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(process_info) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(fabric_info) == 36, "nvmlGpuFabricInfo_v2_t");

struct link {
    int present, p2p, type;
    unsigned int state;
    nvml_return state_error;
    char remote[TEXT];
};

struct c2c {
    unsigned int up, mbps;
};

struct gpu {
    char uuid[TEXT], bus[TEXT], name[TEXT];
    int has_minor, has_numa, numa, has_capability, has_memory, has_mig, has_pcie, has_fabric, has_utilization, lost;
    unsigned int minor, mig[2], pcie[2];
    int capability[2];
    unsigned long long memory, used, reserved;
    unsigned int processes, number; /* number: in the machine, whichever GPUs are shown */
    unsigned long long words[MAX_WORDS];
    unsigned int word_count, c2c_count, link_end;
    struct c2c c2c[MAX_LINKS];
    struct link links[MAX_LINKS], slot; /* slot: what answers for a link that is not there */
    unsigned int slot_end, value_count;
    field_value values[MAX_VALUES];
    fabric_info fabric;
    utilization utilization;
};

struct error {
    char function[TEXT];
    int gpu; /* -1 for all */
    unsigned int field; /* 0: the function itself */
    nvml_return code;
};

static struct {
    char driver[TEXT], hanging[TEXT], traffic[4096];
    int late;
    int cuda;
    unsigned int gpu_count, said_count, error_count;
    struct gpu gpus[MAX_GPUS];
    struct error errors[MAX_ERRORS];
    unsigned int p2p[MAX_GPUS][MAX_GPUS];
    int ancestor[MAX_GPUS][MAX_GPUS];
} machine;

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* NVML may be used by several threads at once: nvml.h */
static unsigned int users;      /* nvmlInit calls without their nvmlShutdown */
static unsigned int generation; /* of handles */
static unsigned long calls;     /* of functions that need a started NVML */

/* The description */

static char *rest_of(char *line, int words)
{
    for (; words > 0; words--) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    return line + strspn(line, " ");
}

static void copy_text(char *to, const char *from)
{
    snprintf(to, TEXT, "%s", from);
}

static int add_error(int gpu, const char *function, unsigned int field, nvml_return code)
{
    struct error *error;
    if (machine.error_count == MAX_ERRORS)
        return 0;
    error = &machine.errors[machine.error_count++];
    copy_text(error->function, function);
    error->gpu = gpu;
    error->field = field;
    error->code = code;
    return 1;
}

static int place_of(const char *word, const char *const *words, int count)
{
    for (int place = 0; place < count; place++)
        if (strcmp(word, words[place]) == 0)
            return place;
    return -1;
}

static int read_link(struct gpu *gpu, const char *text)
{
    static const char *const states[] = {"down", "up", "sleep", "blocked"}; /* 0 to 3 */
    static const char *const types[] = {"gpu", "cpu", "switch", "unknown", "-"};
    static const int type_numbers[] = {0, 1, 2, 255, -1};
    char state[16] = "", type[16] = "", remote[64] = "", option[16] = "";
    unsigned int number;
    int words = sscanf(text, "%u %15s %15s %63s %15s", &number, state, type, remote, option);
    int state_number = place_of(state, states, 4), type_place = place_of(type, types, 5);
    if (words < 4 || number >= MAX_LINKS || state_number < 0 || type_place < 0)
        return 0;
    if (words == 5 && strcmp(option, "no-p2p") != 0)
        return 0;
    struct link *link = &gpu->links[number];
    link->present = 1;
    link->state = (unsigned int)state_number;
    link->type = type_numbers[type_place];
    link->p2p = words == 4;
    copy_text(link->remote, remote);
    if (number >= gpu->link_end)
        gpu->link_end = number + 1;
    return 1;
}

static int read_slots(struct gpu *gpu, const char *text)
{
    unsigned int p2p;
    if (sscanf(text, "%u %u %u", &gpu->slot_end, &p2p, &gpu->slot.state_error) != 3 || gpu->slot_end > MAX_LINKS || p2p > 1)
        return 0;
    gpu->slot.p2p = (int)p2p;
    gpu->slot.type = 255;
    copy_text(gpu->slot.remote, "empty");
    return 1;
}

static int read_value(struct gpu *gpu, const char *text)
{
    static const char *const types[] = {"double", "uint", "ulong", "ulonglong", "slonglong", "sint", "ushort", "new"};
    field_value value = {.timestamp = TIMESTAMP};
    char type[16] = "", number[64] = "";
    if (sscanf(text, "%u %u %15s %63s", &value.field_id, &value.scope_id, type, number) != 4)
        return 0;
    int place = place_of(type, types, 8); /* the types are numbered in this order */
    if (place < 0 || gpu->value_count == MAX_VALUES)
        return 0;
    value.value_type = (unsigned int)place;
    switch (place) {
    case DOUBLE:
        value.value.d = strtod(number, NULL);
        break;
    case UNSIGNED_INT:
        value.value.ui = (unsigned int)strtoul(number, NULL, 10);
        break;
    case UNSIGNED_LONG:
        value.value.ul = strtoul(number, NULL, 10);
        break;
    case SIGNED_LONG_LONG:
        value.value.sll = strtoll(number, NULL, 10);
        break;
    case SIGNED_INT:
        value.value.si = (int)strtol(number, NULL, 10);
        break;
    case UNSIGNED_SHORT:
        value.value.us = (unsigned short)strtoul(number, NULL, 10);
        break;
    default:
        value.value.ull = strtoull(number, NULL, 10);
    }
    gpu->values[gpu->value_count++] = value;
    return 1;
}

static int read_fabric(struct gpu *gpu, const char *text)
{
    char uuid[33] = "";
    if (sscanf(text, "%u %u %u %32s %x", &gpu->fabric.state, &gpu->fabric.status, &gpu->fabric.clique_id, uuid,
               &gpu->fabric.health_mask) < 4)
        return 0;
    for (int place = 0; place < 16; place++) {
        unsigned int byte;
        if (sscanf(uuid + 2 * place, "%2x", &byte) != 1)
            return 0;
        gpu->fabric.cluster_uuid[place] = (unsigned char)byte;
    }
    return gpu->has_fabric = 1;
}

static int read_c2c(struct gpu *gpu, const char *text)
{
    char state[16] = "";
    unsigned int number, mbps;
    if (sscanf(text, "%u %15s %u", &number, state, &mbps) != 3 || number >= MAX_LINKS)
        return 0;
    gpu->c2c[number].up = strcmp(state, "up") == 0;
    gpu->c2c[number].mbps = mbps;
    if (number >= gpu->c2c_count)
        gpu->c2c_count = number + 1;
    return 1;
}

static int read_words(struct gpu *gpu, const char *text)
{
    char *end;
    for (gpu->word_count = 0; *text && gpu->word_count < MAX_WORDS; gpu->word_count++, text = end + strspn(end, " ")) {
        gpu->words[gpu->word_count] = strtoull(text, &end, 16);
        if (end == text)
            return 0;
    }
    return 1;
}

static int read_gpu_error(unsigned int index, const char *text)
{
    char function[TEXT];
    unsigned int code;
    return sscanf(text, "%255s %u", function, &code) == 2 && add_error((int)index, function, 0, code);
}

static int read_field_error(unsigned int index, const char *text)
{
    unsigned int field, code;
    return sscanf(text, "%u %u", &field, &code) == 2 && add_error((int)index, "", field, code);
}

static int read_gpu(char *line)
{
    unsigned int index;
    char key[TEXT];
    if (sscanf(line, "gpu %u %255s", &index, key) != 2 || index >= MAX_GPUS || index > machine.gpu_count)
        return 0;
    if (index == machine.gpu_count)
        machine.gpu_count++;
    struct gpu *gpu = &machine.gpus[index];
    char *text = rest_of(line, 3);
    gpu->number = index;
    if (strcmp(key, "uuid") == 0)
        return copy_text(gpu->uuid, text), 1;
    if (strcmp(key, "bus") == 0)
        return copy_text(gpu->bus, text), 1;
    if (strcmp(key, "name") == 0)
        return copy_text(gpu->name, text), 1;
    if (strcmp(key, "minor") == 0)
        return gpu->has_minor = sscanf(text, "%u", &gpu->minor) == 1;
    if (strcmp(key, "numa") == 0)
        return gpu->has_numa = sscanf(text, "%d", &gpu->numa) == 1;
    if (strcmp(key, "capability") == 0)
        return gpu->has_capability = sscanf(text, "%d %d", &gpu->capability[0], &gpu->capability[1]) == 2;
    if (strcmp(key, "memory") == 0)
        return gpu->has_memory = sscanf(text, "%llu", &gpu->memory) == 1;
    if (strcmp(key, "affinity") == 0)
        return read_words(gpu, text);
    if (strcmp(key, "mig") == 0)
        return gpu->has_mig = sscanf(text, "%u %u", &gpu->mig[0], &gpu->mig[1]) == 2;
    if (strcmp(key, "pcie") == 0)
        return gpu->has_pcie = sscanf(text, "%u %u", &gpu->pcie[0], &gpu->pcie[1]) == 2;
    if (strcmp(key, "used") == 0)
        return sscanf(text, "%llu", &gpu->used) == 1;
    if (strcmp(key, "reserved") == 0)
        return sscanf(text, "%llu", &gpu->reserved) == 1;
    if (strcmp(key, "processes") == 0)
        return sscanf(text, "%u", &gpu->processes) == 1;
    if (strcmp(key, "utilization") == 0)
        return gpu->has_utilization = sscanf(text, "%u %u", &gpu->utilization.gpu, &gpu->utilization.memory) == 2;
    if (strcmp(key, "c2c") == 0)
        return read_c2c(gpu, text);
    if (strcmp(key, "fabric") == 0)
        return read_fabric(gpu, text);
    if (strcmp(key, "link") == 0)
        return read_link(gpu, text);
    if (strcmp(key, "slots") == 0)
        return read_slots(gpu, text);
    if (strcmp(key, "value") == 0)
        return read_value(gpu, text);
    if (strcmp(key, "field") == 0)
        return read_field_error(index, text);
    if (strcmp(key, "error") == 0)
        return read_gpu_error(index, text);
    return strcmp(key, "lost") == 0 ? gpu->lost = 1 : 0;
}

static int read_pair(const char *line)
{
    unsigned int one, other, number;
    char key[16];
    if (sscanf(line, "%15s %u %u %u", key, &one, &other, &number) != 4 || one >= MAX_GPUS || other >= MAX_GPUS)
        return 0;
    if (strcmp(key, "p2p") == 0)
        machine.p2p[one][other] = machine.p2p[other][one] = number;
    else
        machine.ancestor[one][other] = machine.ancestor[other][one] = (int)number;
    return 1;
}

static int read_line(char *line)
{
    char key[TEXT], function[TEXT];
    unsigned int code;
    line[strcspn(line, "#\n")] = '\0';
    if (sscanf(line, "%255s", key) != 1)
        return 1;
    if (strcmp(key, "gpu") == 0)
        return read_gpu(line);
    if (strcmp(key, "driver") == 0)
        return copy_text(machine.driver, rest_of(line, 1)), 1;
    if (strcmp(key, "cuda") == 0)
        return sscanf(line, "cuda %d", &machine.cuda) == 1;
    if (strcmp(key, "traffic") == 0)
        return sscanf(line, "traffic %4095s", machine.traffic) == 1;
    if (strcmp(key, "late") == 0)
        return sscanf(line, "late %d", &machine.late) == 1;
    if (strcmp(key, "count") == 0)
        return sscanf(line, "count %u", &machine.said_count) == 1;
    if (strcmp(key, "hang") == 0)
        return copy_text(machine.hanging, rest_of(line, 1)), 1;
    if (strcmp(key, "error") == 0)
        return sscanf(line, "error %255s %u", function, &code) == 2 && add_error(-1, function, 0, code);
    return (strcmp(key, "p2p") == 0 || strcmp(key, "ancestor") == 0) && read_pair(line);
}

static int is_listed(const char *list, const char *uuid)
{
    size_t length = strlen(uuid);
    for (const char *entry = list; *entry; entry += strcspn(entry, ","), entry += *entry == ',')
        if (length && strcspn(entry, ",") == length && strncmp(entry, uuid, length) == 0)
            return 1;
    return 0;
}

static void hide_gpus(const char *list)
{
    unsigned int shown[MAX_GPUS], count = 0;
    for (unsigned int index = 0; index < machine.gpu_count; index++)
        if (is_listed(list, machine.gpus[index].uuid))
            shown[count++] = index;
    for (unsigned int place = 0; place < machine.error_count; place++) {
        struct error *error = &machine.errors[place];
        int before = error->gpu;
        error->gpu = before < 0 ? before : MAX_GPUS; /* of no GPU that is shown */
        for (unsigned int index = 0; index < count; index++)
            if (before == (int)shown[index])
                error->gpu = (int)index;
    }
    for (unsigned int one = 0; one < count; one++) { /* shown[one] >= one: nothing is lost on the way */
        machine.gpus[one] = machine.gpus[shown[one]];
        for (unsigned int other = 0; other < count; other++) {
            machine.p2p[one][other] = machine.p2p[shown[one]][shown[other]];
            machine.ancestor[one][other] = machine.ancestor[shown[one]][shown[other]];
        }
    }
    machine.gpu_count = count;
}

static nvml_return read_machine(void)
{
    char line[4096];
    const char *path = getenv("NVML_STUB_MACHINE");
    if (!path || !*path)
        return DRIVER_NOT_LOADED;
    memset(&machine, 0, sizeof machine);
    memset(machine.ancestor, -1, sizeof machine.ancestor);
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "nvml_stub: cannot open %s\n", path);
        return UNKNOWN;
    }
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        if (!read_line(line)) {
            fprintf(stderr, "nvml_stub: %s:%d is not understood\n", path, number);
            fclose(file);
            return UNKNOWN;
        }
    }
    fclose(file);
    const char *list = getenv("NVIDIA_VISIBLE_DEVICES");
    if (list && strcmp(list, "all") != 0)
        hide_gpus(list);
    return SUCCESS;
}

/* What every function asks first */

static nvml_return refusal(const char *function, int gpu)
{
    if (strcmp(machine.hanging, function) == 0) {
        fprintf(stderr, "nvml_stub: %s hangs\n", function);
        for (;;)
            pause();
    }
    for (unsigned int place = 0; place < machine.error_count; place++) {
        const struct error *error = &machine.errors[place];
        int named = strcmp(error->function, function) == 0 || (gpu >= 0 && strcmp(error->function, "*") == 0);
        if (!error->field && named && (error->gpu < 0 || error->gpu == gpu))
            return error->code;
    }
    return SUCCESS;
}

static struct gpu *gpu_of(nvml_device handle)
{
    uintptr_t number = (uintptr_t)handle;
    unsigned int index = (unsigned int)(number & 0xff) - 1;
    return number >> 8 == generation && index < machine.gpu_count ? &machine.gpus[index] : NULL;
}

static int index_of(const struct gpu *gpu)
{
    return (int)(gpu - machine.gpus);
}

#define STARTED()                                                                                                              \
    do {                                                                                                                       \
        calls++;                                                                                                               \
        if (!users)                                                                                                            \
            return UNINITIALIZED;                                                                                              \
        nvml_return code_ = refusal(__func__, -1);                                                                             \
        if (code_)                                                                                                             \
            return code_;                                                                                                      \
    } while (0)

#define GPU(name, handle)                                                                                                      \
    STARTED();                                                                                                                 \
    struct gpu *name = gpu_of(handle);                                                                                         \
    if (!name)                                                                                                                 \
        return INVALID_ARGUMENT;                                                                                               \
    do {                                                                                                                       \
        nvml_return code_ = refusal(__func__, index_of(name));                                                                 \
        if (code_)                                                                                                             \
            return code_;                                                                                                      \
    } while (0)

static nvml_return give_text(const char *text, char *to, unsigned int length)
{
    if (!to)
        return INVALID_ARGUMENT;
    if (!*text)
        return NOT_SUPPORTED;
    if (strlen(text) >= length)
        return INSUFFICIENT_SIZE;
    memcpy(to, text, strlen(text) + 1);
    return SUCCESS;
}

static nvml_return give_numbers(int known, const unsigned int *numbers, unsigned int *first, unsigned int *second)
{
    if (!first || !second)
        return INVALID_ARGUMENT;
    if (!known)
        return NOT_SUPPORTED;
    *first = numbers[0];
    *second = numbers[1];
    return SUCCESS;
}

static void give_bus_id(const char *bus_id, pci_info *to)
{
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "%.31s", bus_id);
    if (sscanf(bus_id, "%x:%x:%x", &to->domain, &to->bus, &to->device) == 3)
        snprintf(to->bus_id_legacy, sizeof to->bus_id_legacy, "%04X:%02X:%02X.0", to->domain & 0xffff, to->bus & 0xff,
                 to->device & 0xff);
}

/* By this a test knows that it has the stub, and not a driver. */
API void nvml_stub(void)
{
}

API unsigned long nvml_stub_calls(void)
{
    return calls;
}

/* nvml.h: initialization, errors, the system */

static nvml_return start(void)
{
    if (!users) {
        nvml_return code = read_machine();
        if (!code)
            code = refusal("nvmlInitWithFlags", -1);
        if (code)
            return code;
        generation++;
    }
    users++;
    return SUCCESS;
}

API nvml_return nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&starting);
    nvml_return code = start();
    pthread_mutex_unlock(&starting);
    return code;
}

API nvml_return nvmlShutdown(void)
{
    pthread_mutex_lock(&starting);
    nvml_return code = users ? SUCCESS : UNINITIALIZED;
    if (users)
        users--;
    pthread_mutex_unlock(&starting);
    return code;
}

API const char *nvmlErrorString(nvml_return code)
{
    switch (code) {
    case SUCCESS:
        return "Success";
    case UNINITIALIZED:
        return "Uninitialized";
    case 16:
        return "GPU requires restart";
    case 29:
        return "Invalid State";
    default:
        return "Unknown Error";
    }
}

API nvml_return nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    STARTED();
    return give_text(machine.driver, version, length);
}

API nvml_return nvmlSystemGetCudaDriverVersion(int *version)
{
    STARTED();
    if (!version)
        return INVALID_ARGUMENT;
    *version = machine.cuda;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetCount_v2(unsigned int *count)
{
    STARTED();
    if (!count)
        return INVALID_ARGUMENT;
    *count = machine.said_count ? machine.said_count : machine.gpu_count;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvml_device *handle)
{
    STARTED();
    if (!handle || index >= machine.gpu_count)
        return INVALID_ARGUMENT;
    for (unsigned int place = 0; place < machine.error_count; place++) {
        const struct error *error = &machine.errors[place];
        if (error->gpu == (int)index && strcmp(error->function, __func__) == 0)
            return error->code;
    }
    if (machine.gpus[index].lost)
        return GPU_IS_LOST;
    *handle = (nvml_device)((uintptr_t)generation << 8 | (index + 1));
    return SUCCESS;
}

/* nvml.h: one GPU */

API nvml_return nvmlDeviceGetUUID(nvml_device handle, char *uuid, unsigned int length)
{
    GPU(gpu, handle);
    return give_text(gpu->uuid, uuid, length);
}

API nvml_return nvmlDeviceGetName(nvml_device handle, char *name, unsigned int length)
{
    GPU(gpu, handle);
    return give_text(gpu->name, name, length);
}

API nvml_return nvmlDeviceGetPciInfo_v3(nvml_device handle, pci_info *info)
{
    GPU(gpu, handle);
    if (!info)
        return INVALID_ARGUMENT;
    if (!*gpu->bus)
        return NOT_SUPPORTED;
    give_bus_id(gpu->bus, info);
    return SUCCESS;
}

API nvml_return nvmlDeviceGetMinorNumber(nvml_device handle, unsigned int *minor)
{
    GPU(gpu, handle);
    if (!minor)
        return INVALID_ARGUMENT;
    if (!gpu->has_minor)
        return NOT_SUPPORTED;
    *minor = gpu->minor;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetCudaComputeCapability(nvml_device handle, int *major, int *minor)
{
    GPU(gpu, handle);
    if (!major || !minor)
        return INVALID_ARGUMENT;
    if (!gpu->has_capability)
        return NOT_SUPPORTED;
    *major = gpu->capability[0];
    *minor = gpu->capability[1];
    return SUCCESS;
}

API nvml_return nvmlDeviceGetMemoryInfo(nvml_device handle, memory_info *memory)
{
    GPU(gpu, handle);
    if (!memory)
        return INVALID_ARGUMENT;
    if (!gpu->has_memory)
        return NOT_SUPPORTED;
    unsigned long long taken = gpu->used + gpu->reserved;
    *memory = (memory_info){.total = gpu->memory, .free = gpu->memory - taken, .used = taken};
    return SUCCESS;
}

API nvml_return nvmlDeviceGetMemoryInfo_v2(nvml_device handle, memory_info_v2 *memory)
{
    GPU(gpu, handle);
    if (!memory)
        return INVALID_ARGUMENT;
    if (memory->version != (sizeof *memory | 2u << 24))
        return VERSION_MISMATCH;
    if (!gpu->has_memory)
        return NOT_SUPPORTED;
    memory->total = gpu->memory;
    memory->used = gpu->used;
    memory->reserved = gpu->reserved;
    memory->free = gpu->memory - gpu->used - gpu->reserved;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetComputeRunningProcesses_v3(nvml_device handle, unsigned int *count, process_info *processes)
{
    GPU(gpu, handle);
    if (!count)
        return INVALID_ARGUMENT;
    unsigned int room = *count;
    *count = gpu->processes;
    if (room < gpu->processes || (gpu->processes && !processes))
        return INSUFFICIENT_SIZE;
    for (unsigned int place = 0; place < gpu->processes; place++)
        processes[place] = (process_info){.pid = 1000 + place, .used = gpu->used / gpu->processes};
    return SUCCESS;
}

API nvml_return nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device handle, unsigned int *count, process_info *processes)
{
    GPU(gpu, handle);
    (void)processes;
    if (!count)
        return INVALID_ARGUMENT;
    *count = 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetUtilizationRates(nvml_device handle, utilization *rates)
{
    GPU(gpu, handle);
    if (!rates)
        return INVALID_ARGUMENT;
    if (!gpu->has_utilization)
        return NOT_SUPPORTED;
    *rates = gpu->utilization;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetNumaNodeId(nvml_device handle, int *node)
{
    GPU(gpu, handle);
    if (!node)
        return INVALID_ARGUMENT;
    if (!gpu->has_numa)
        return NOT_SUPPORTED;
    *node = gpu->numa;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetCpuAffinity(nvml_device handle, unsigned int count, unsigned long *words)
{
    GPU(gpu, handle);
    if (!words || !count)
        return INVALID_ARGUMENT;
    if (!gpu->word_count)
        return NOT_SUPPORTED;
    if (count < gpu->word_count)
        return INSUFFICIENT_SIZE;
    for (unsigned int place = 0; place < count; place++)
        words[place] = place < gpu->word_count ? gpu->words[place] : 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetMigMode(nvml_device handle, unsigned int *current, unsigned int *pending)
{
    GPU(gpu, handle);
    return give_numbers(gpu->has_mig, gpu->mig, current, pending);
}

API nvml_return nvmlDeviceGetMaxPcieLinkGeneration(nvml_device handle, unsigned int *number)
{
    unsigned int width;
    GPU(gpu, handle);
    return give_numbers(gpu->has_pcie, gpu->pcie, number, &width);
}

API nvml_return nvmlDeviceGetMaxPcieLinkWidth(nvml_device handle, unsigned int *width)
{
    unsigned int number;
    GPU(gpu, handle);
    return give_numbers(gpu->has_pcie, gpu->pcie, &number, width);
}

API nvml_return nvmlDeviceGetGpuFabricInfoV(nvml_device handle, fabric_info *info)
{
    GPU(gpu, handle);
    if (!info)
        return INVALID_ARGUMENT;
    if (info->version != (sizeof *info | 2u << 24))
        return VERSION_MISMATCH;
    if (!gpu->has_fabric)
        return NOT_SUPPORTED;
    unsigned int version = info->version;
    *info = gpu->fabric;
    info->version = version;
    return SUCCESS;
}

/* nvml.h: links and field values */

static nvml_return find_link(struct gpu *gpu, unsigned int number, struct link **link)
{
    if (number < gpu->link_end && gpu->links[number].present)
        *link = &gpu->links[number];
    else if (number < gpu->slot_end)
        *link = &gpu->slot;
    else
        return number >= gpu->link_end && gpu->link_end ? INVALID_ARGUMENT : NOT_SUPPORTED;
    return SUCCESS;
}

#define LINK(name, gpu, number)                                                                                                \
    struct link *name = NULL;                                                                                                  \
    do {                                                                                                                       \
        nvml_return code_ = find_link(gpu, number, &name);                                                                     \
        if (code_)                                                                                                             \
            return code_;                                                                                                      \
    } while (0)

API nvml_return nvmlDeviceGetNvLinkState(nvml_device handle, unsigned int number, unsigned int *active)
{
    GPU(gpu, handle);
    LINK(link, gpu, number);
    if (!active)
        return INVALID_ARGUMENT;
    if (link->state_error)
        return link->state_error;
    *active = link->state != 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetNvLinkCapability(nvml_device handle, unsigned int number, unsigned int capability, unsigned int *result)
{
    GPU(gpu, handle);
    LINK(link, gpu, number);
    if (!result || capability > 5)
        return INVALID_ARGUMENT;
    *result = capability == 0 ? (unsigned int)link->p2p : 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device handle, unsigned int number, unsigned int *type)
{
    GPU(gpu, handle);
    LINK(link, gpu, number);
    if (!type)
        return INVALID_ARGUMENT;
    if (link->type < 0)
        return NOT_SUPPORTED;
    *type = (unsigned int)link->type;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device handle, unsigned int number, pci_info *info)
{
    GPU(gpu, handle);
    LINK(link, gpu, number);
    if (!info)
        return INVALID_ARGUMENT;
    if (strcmp(link->remote, "-") == 0)
        return NOT_SUPPORTED;
    if (strcmp(link->remote, "empty") == 0)
        memset(info, 0, sizeof *info);
    else if (strcmp(link->remote, "garbage") == 0)
        memset(info, 0xfe, sizeof *info);
    else
        give_bus_id(link->remote, info);
    return SUCCESS;
}

static nvml_return link_count(const struct gpu *gpu, unsigned int *count)
{
    *count = 0;
    for (unsigned int number = 0; number < gpu->link_end; number++)
        *count += (unsigned int)gpu->links[number].present;
    return *count ? SUCCESS : NOT_SUPPORTED;
}

static nvml_return link_state(struct gpu *gpu, unsigned int number, unsigned int *state)
{
    LINK(link, gpu, number);
    if (link == &gpu->slot)
        return link->state_error ? link->state_error : NOT_SUPPORTED;
    *state = link->state;
    return SUCCESS;
}

static nvml_return c2c_field(const struct gpu *gpu, unsigned int id, unsigned int scope, unsigned int *value)
{
    if (!gpu->c2c_count)
        return NOT_SUPPORTED;
    if (id == C2C_LINK_COUNT)
        *value = gpu->c2c_count;
    else if (scope >= gpu->c2c_count)
        return INVALID_ARGUMENT;
    else if (id == C2C_LINK_GET_STATUS)
        *value = gpu->c2c[scope].up;
    else if (id == C2C_LINK_GET_MAX_BW)
        *value = gpu->c2c[scope].mbps;
    else
        return NOT_SUPPORTED;
    return SUCCESS;
}

/* What the counters of a GPU showed when they were last refreshed. */
static struct {
    unsigned long long counters[2];
    int64_t timestamp;
    int is_known, waited;
} refreshed[MAX_GPUS];

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void refresh(unsigned int number)
{
    unsigned long long counters[MAX_GPUS][2] = {{0}};
    FILE *file = fopen(machine.traffic, "rb");
    if (file) {
        if (fread(counters, 1, sizeof counters, file) != sizeof counters)
            memset(counters, 0, sizeof counters);
        fclose(file);
    }
    int changed = memcmp(refreshed[number].counters, counters[number], sizeof counters[number]);
    if (refreshed[number].is_known && changed && refreshed[number].waited++ < machine.late)
        return;
    memcpy(refreshed[number].counters, counters[number], sizeof counters[number]);
    refreshed[number].timestamp = now();
    refreshed[number].is_known = 1;
    refreshed[number].waited = 0;
}

/* Each link has an equal part of what all have moved, in KiB. */
static nvml_return link_traffic(const struct gpu *gpu, unsigned int id, unsigned int number, field_value *answer)
{
    unsigned int links;
    if (link_count(gpu, &links) || number >= gpu->link_end || !gpu->links[number].present)
        return NOT_SUPPORTED;
    answer->value.ull = refreshed[gpu->number].counters[id == NVLINK_THROUGHPUT_DATA_RX] / 1024 / links;
    answer->timestamp = refreshed[gpu->number].timestamp;
    answer->value_type = UNSIGNED_LONG_LONG;
    return SUCCESS;
}

static nvml_return field(struct gpu *gpu, field_value *answer)
{
    unsigned int id = answer->field_id, scope = answer->scope_id;
    for (unsigned int place = 0; place < machine.error_count; place++)
        if (machine.errors[place].field == id && machine.errors[place].gpu == index_of(gpu))
            return machine.errors[place].code;
    for (unsigned int place = 0; place < gpu->value_count; place++) {
        if (gpu->values[place].field_id == id && gpu->values[place].scope_id == scope) {
            *answer = gpu->values[place];
            return SUCCESS;
        }
    }
    *answer = (field_value){.field_id = id, .scope_id = scope, .timestamp = TIMESTAMP, .value_type = UNSIGNED_INT};
    if (id == NVLINK_LINK_COUNT)
        return link_count(gpu, &answer->value.ui);
    if (*machine.traffic && (id == NVLINK_THROUGHPUT_DATA_TX || id == NVLINK_THROUGHPUT_DATA_RX))
        return link_traffic(gpu, id, scope, answer);
    if (gpu->capability[0] < 9)
        return NOT_SUPPORTED;
    if (id == NVLINK_GET_STATE)
        return link_state(gpu, scope, &answer->value.ui);
    return c2c_field(gpu, id, scope, &answer->value.ui);
}

API nvml_return nvmlDeviceGetFieldValues(nvml_device handle, int count, field_value *values)
{
    GPU(gpu, handle);
    if (count < 1 || !values)
        return INVALID_ARGUMENT;
    if (*machine.traffic)
        refresh(gpu->number);
    for (int place = 0; place < count; place++) {
        field_value *value = &values[place];
        value->result = field(gpu, value);
        if (value->result) {
            value->value_type = ~0u;
            value->value.ull = ~0ull;
        }
    }
    return SUCCESS;
}

/* nvml.h: two GPUs */

API nvml_return nvmlDeviceGetP2PStatus(nvml_device handle, nvml_device other_handle, unsigned int capability, unsigned int *status)
{
    GPU(one, handle);
    GPU(other, other_handle);
    if (!status || capability > 4 || one == other)
        return INVALID_ARGUMENT;
    *status = machine.p2p[index_of(one)][index_of(other)];
    return SUCCESS;
}

API nvml_return nvmlDeviceGetTopologyCommonAncestor(nvml_device handle, nvml_device other_handle, unsigned int *level)
{
    GPU(one, handle);
    GPU(other, other_handle);
    if (!level)
        return INVALID_ARGUMENT;
    int found = machine.ancestor[index_of(one)][index_of(other)];
    if (found < 0)
        return NOT_SUPPORTED;
    *level = (unsigned int)found;
    return SUCCESS;
}
