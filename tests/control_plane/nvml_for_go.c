/*
 * The stub of NVML with what NVIDIA's DRA driver and HAMi's device plugin ask beside it: they are written in Go, whose
 * bindings end the process where a function is missing. Numbers are those of nvml.h.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "../nvml/stub/nvml_stub.c"

enum { BRAND_NVIDIA = 14, UNKNOWN_ARCHITECTURE = -1, NOT_FOUND = 6 };

/* Threads start and end NVML at once, and the stub's count has no lock: it is never near zero. */
__attribute__((constructor)) static void start_for_good(void)
{
    if (nvmlInitWithFlags(0) == SUCCESS)
        users = 1u << 30;
}

API nvml_return nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

API nvml_return nvmlDeviceGetBrand(nvml_device handle, unsigned int *brand)
{
    (void)handle;
    *brand = BRAND_NVIDIA;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetArchitecture(nvml_device handle, unsigned int *architecture)
{
    int major, minor;
    nvml_return code = nvmlDeviceGetCudaComputeCapability(handle, &major, &minor);

    if (code)
        return code;
    switch (10 * major + minor) {
    case 70:
        *architecture = 5;
        break;
    case 75:
        *architecture = 6;
        break;
    case 80:
    case 86:
        *architecture = 7;
        break;
    case 89:
        *architecture = 8;
        break;
    case 90:
        *architecture = 9;
        break;
    case 100:
        *architecture = 10;
        break;
    default:
        *architecture = UNKNOWN_ARCHITECTURE;
    }
    return SUCCESS;
}

/* No card can be cut into instances. */
API nvml_return nvmlDeviceGetGpuInstanceProfileInfo(nvml_device handle, unsigned int profile, void *info)
{
    (void)handle, (void)profile, (void)info;
    return NOT_SUPPORTED;
}

API nvml_return nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *handle)
{
    unsigned int count;
    nvml_return code = nvmlDeviceGetCount_v2(&count);

    for (unsigned int index = 0; !code && index < count; index++) {
        char found[96];

        if (!nvmlDeviceGetHandleByIndex_v2(index, handle) && !nvmlDeviceGetUUID(*handle, found, sizeof found)
            && !strcmp(found, uuid))
            return SUCCESS;
    }
    return code ? code : NOT_FOUND;
}

API nvml_return nvmlDeviceIsMigDeviceHandle(nvml_device handle, unsigned int *is_instance)
{
    (void)handle;
    *is_instance = 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetMaxMigDeviceCount(nvml_device handle, unsigned int *count)
{
    (void)handle;
    *count = 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetIndex(nvml_device handle, unsigned int *index)
{
    unsigned int count;
    nvml_return code = nvmlDeviceGetCount_v2(&count);
    nvml_device found;

    for (*index = 0; !code && *index < count; ++*index)
        if (!nvmlDeviceGetHandleByIndex_v2(*index, &found) && found == handle)
            return SUCCESS;
    return code ? code : NOT_FOUND;
}

/* There are sets of events, in which nothing ever happens. */
enum { TIMEOUT = 10 };

API nvml_return nvmlEventSetCreate(void **set)
{
    static int only;

    *set = &only;
    return SUCCESS;
}

API nvml_return nvmlEventSetFree(void *set)
{
    (void)set;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetSupportedEventTypes(nvml_device handle, unsigned long long *types)
{
    (void)handle;
    *types = 0;
    return SUCCESS;
}

API nvml_return nvmlDeviceRegisterEvents(nvml_device handle, unsigned long long types, void *set)
{
    (void)handle, (void)types, (void)set;
    return SUCCESS;
}

API nvml_return nvmlEventSetWait_v2(void *set, void *data, unsigned int milliseconds)
{
    const struct timespec wait = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};

    (void)set, (void)data;
    nanosleep(&wait, NULL);
    return TIMEOUT;
}
