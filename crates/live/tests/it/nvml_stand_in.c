/* Stands in for NVIDIA's library: two devices, the second of which tells little. With -DHANGS a call never comes back. */
#include <string.h>
#include <unistd.h>

#define NOT_SUPPORTED 3
typedef struct device { unsigned index; } device;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
static device devices[2] = {{0}, {1}};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.86.15", length); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **found) { *found = &devices[index]; return 0; }
int nvmlDeviceGetName(device *it, char *text, unsigned length) { strncpy(text, "NVIDIA H100 80GB HBM3", length); return 0; }
int nvmlDeviceGetUtilizationRates(device *it, utilization *found) {
#ifdef HANGS
    for (;;) pause();
#endif
    if (it->index == 1) return NOT_SUPPORTED;
    found->gpu = 87, found->memory = 41;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(device *it, memory_v2 *found) {
    if (it->index == 1) return NOT_SUPPORTED;
    found->total = 80ULL << 30, found->used = 72ULL << 30;
    return 0;
}
/* Kinds of clocks: 1 SM, 2 memory. */
static int one(device *it, unsigned *found, unsigned value) {
    *found = value;
    return it->index == 1 ? NOT_SUPPORTED : 0;
}
int nvmlDeviceGetClockInfo(device *it, int kind, unsigned *mhz) { return one(it, mhz, kind == 1 ? 1200 : 2619); }
int nvmlDeviceGetMaxClockInfo(device *it, int kind, unsigned *mhz) { return one(it, mhz, kind == 1 ? 1980 : 2619); }
int nvmlDeviceGetPowerUsage(device *it, unsigned *milliwatts) { *milliwatts = 698500; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(device *it, unsigned *milliwatts) { return one(it, milliwatts, 700000); }
int nvmlDeviceGetTemperature(device *it, int sensor, unsigned *celsius) { return one(it, celsius, 74); }
int nvmlDeviceGetCurrentClocksThrottleReasons(device *it, unsigned long long *mask) {
    *mask = 0x4;
    return it->index == 1 ? NOT_SUPPORTED : 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(device *it, unsigned *generation) { return one(it, generation, 5); }
int nvmlDeviceGetCurrPcieLinkWidth(device *it, unsigned *lanes) { return one(it, lanes, 16); }
/* Counters: 0 sent, 1 received, in KB/s. */
int nvmlDeviceGetPcieThroughput(device *it, int counter, unsigned *kilobytes) { return one(it, kilobytes, counter == 0 ? 1000 : 3000); }
