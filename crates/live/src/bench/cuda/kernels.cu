// Kernels of `inferoscope bench`. kernels.ptx beside it is what NVRTC makes of this file for compute capability 7.0, so
// that neither building nor running the program needs a CUDA toolkit; a driver compiles it for its device.

extern "C" __global__ void nothing() {}

// Values of both signs between 0.5 and 1 as BF16 pairs, never zero: a device fed with zeros draws less power and clocks higher.
extern "C" __global__ void fill(unsigned int *out, unsigned long long count, unsigned int seed) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        unsigned int mixed = (unsigned int)at * 2654435761u + seed;
        mixed ^= mixed >> 15;
        mixed *= 2246822519u;
        mixed ^= mixed >> 13;
        out[at] = (mixed & 0x807f807fu) | 0x3f003f00u;
    }
}

// Reads everything once; the store never happens but keeps the reads.
extern "C" __global__ void read(const uint4 *in, unsigned long long count, unsigned int *out) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int sum = 0;
    for (; at + 3 * step < count; at += 4 * step) {
        uint4 a = in[at], b = in[at + step], c = in[at + 2 * step], d = in[at + 3 * step];
        sum |= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; at < count; at += step) {
        uint4 a = in[at];
        sum |= a.x ^ a.y ^ a.z ^ a.w;
    }
    // The sign and exponent bits that `fill` sets cancel in pairs, so that this is never so.
    if (sum == 0xffffffffu) out[0] = sum;
}

__device__ static inline float low(unsigned int pair) { return __uint_as_float(pair << 16); }
__device__ static inline float high(unsigned int pair) { return __uint_as_float(pair & 0xffff0000u); }

// Decode attention over a BF16 cache laid out [cache][token][WIDTH]: a block per cache (a sequence's head) and part of its
// tokens, a warp per token, each lane WIDTH / 32 values. Parts are not merged: what is measured is the stream.
template <int WIDTH, int GROUP>
__device__ static void attend(const unsigned int *keys, const unsigned int *values, const float *queries, float *out, int context) {
    const int PAIRS = WIDTH / 64;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int part = (context + gridDim.y - 1) / gridDim.y;
    int first = blockIdx.y * part, last = min(first + part, context);
    unsigned long long base = (unsigned long long)blockIdx.x * context * (WIDTH / 2);
    float query[GROUP][2 * PAIRS], sum[GROUP][2 * PAIRS], most[GROUP], total[GROUP];
    for (int head = 0; head < GROUP; head++) {
        most[head] = -1e30f;
        total[head] = 0.0f;
        for (int at = 0; at < 2 * PAIRS; at++) {
            query[head][at] = queries[head * WIDTH + lane * 2 * PAIRS + at];
            sum[head][at] = 0.0f;
        }
    }
    for (int token = first + warp; token < last; token += warps) {
        const unsigned int *key = keys + base + (unsigned long long)token * (WIDTH / 2) + lane * PAIRS;
        const unsigned int *value = values + base + (unsigned long long)token * (WIDTH / 2) + lane * PAIRS;
        unsigned int k[PAIRS], v[PAIRS];
        for (int at = 0; at < PAIRS; at++) { k[at] = key[at]; v[at] = value[at]; }
        for (int head = 0; head < GROUP; head++) {
            float score = 0.0f;
            for (int at = 0; at < PAIRS; at++) score += query[head][2 * at] * low(k[at]) + query[head][2 * at + 1] * high(k[at]);
            for (int other = 16; other > 0; other /= 2) score += __shfl_xor_sync(0xffffffffu, score, other);
            float higher = fmaxf(most[head], score);
            float fade = __expf(most[head] - higher), weight = __expf(score - higher);
            most[head] = higher;
            total[head] = total[head] * fade + weight;
            for (int at = 0; at < PAIRS; at++) {
                sum[head][2 * at] = sum[head][2 * at] * fade + weight * low(v[at]);
                sum[head][2 * at + 1] = sum[head][2 * at + 1] * fade + weight * high(v[at]);
            }
        }
    }
    unsigned long long row = ((unsigned long long)blockIdx.x * gridDim.y + blockIdx.y) * warps + warp;
    for (int head = 0; head < GROUP; head++)
        for (int at = 0; at < 2 * PAIRS; at++)
            out[(row * GROUP + head) * WIDTH + lane * 2 * PAIRS + at] = total[head] > 0.0f ? sum[head][at] / total[head] : 0.0f;
}

#define ATTENTION(WIDTH, GROUP) \
    extern "C" __global__ void attention_##WIDTH##_##GROUP(const unsigned int *keys, const unsigned int *values, const float *queries, float *out, int context) { \
        attend<WIDTH, GROUP>(keys, values, queries, out, context); \
    }

ATTENTION(64, 8)
ATTENTION(128, 1)
ATTENTION(128, 4)
ATTENTION(128, 8)
