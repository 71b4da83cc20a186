// What the kernels beside this share: matrix instructions, loads and barriers of compute capability 9.0.
#include <cuda_bf16.h>

namespace tf {

using bf16 = __nv_bfloat16;
constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ unsigned shared_at(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Into shared memory, behind the thread's back: 16 bytes.
__device__ __forceinline__ void copy_16(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Four 8 x 8 matrices of 16-bit numbers; each lane names one row of 16 bytes.
__device__ __forceinline__ void load_matrices(unsigned (&m)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at));
}

__device__ __forceinline__ void load_matrices_turned(unsigned (&m)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at));
}

// c[16 x 8] += a[16 x 16] b[16 x 8], summed in float32.
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float low, float high) {
  __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<unsigned*>(&both);
}

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float infinite() { return __int_as_float(0x7f800000); }

}  // namespace tf
namespace tf {
constexpr int SHORT = 64;
constexpr int UNTIL_SHORT = 512;
constexpr int MIDDLE = 128;
constexpr int UNTIL_MIDDLE = 2048;
constexpr int LONG = 512;
}
// Attention of up to 16 rows of one stream over its cache: keys in fixed splits, a block each, then the splits' sums.
//
// Where a split begins depends on the keys' positions alone, and keys that a row does not see add exactly nothing, so a
// row's bits depend on its own position only. A leaf stands at a position whose key in the cache is another token's; its
// own key lies further on, and a block of its own puts it in its place.

namespace tf {

// Splits of SHORT keys up to UNTIL_SHORT, where few of them would leave the device idle, of MIDDLE keys up to
// UNTIL_MIDDLE, and of LONG ones, whose sums cost little, from there on. plan.py says how many each is.
__device__ __forceinline__ int split_start(int split) {
  constexpr int A = UNTIL_SHORT / SHORT, B = A + (UNTIL_MIDDLE - UNTIL_SHORT) / MIDDLE;
  return split < A ? split * SHORT : split < B ? UNTIL_SHORT + (split - A) * MIDDLE : UNTIL_MIDDLE + (split - B) * LONG;
}

__device__ __forceinline__ int split_of(int position) {
  constexpr int A = UNTIL_SHORT / SHORT, B = A + (UNTIL_MIDDLE - UNTIL_SHORT) / MIDDLE;
  return position < UNTIL_SHORT    ? position / SHORT
         : position < UNTIL_MIDDLE ? A + (position - UNTIL_SHORT) / MIDDLE
                                   : B + (position - UNTIL_MIDDLE) / LONG;
}

// queries [rows, HEADS, SIZE], cache [2 KV, capacity, SIZE], keys over values; positions [rows + leaves]: of the rows,
// then where the keys of the leaves are, which are the last rows.
// sums [splits, rows, HEADS, SIZE], weights [splits, rows, HEADS, 2]: greatest score and sum of powers of two.
// Blocks (KV, splits + leaves) of HEADS / KV warps, a warp a head.
template <int HEADS, int KV, int SIZE>
__device__ __forceinline__ void attend_split(const bf16* queries, const bf16* cache, const int* positions, float* sums,
                                             float* weights, int rows, int leaves, int capacity) {
  constexpr int GROUP = HEADS / KV, THREADS = GROUP * 32, KEYS = 32, STEPS = SIZE / 16, ROW = SIZE * 2 + 16;
  __shared__ __align__(16) unsigned char memory[2][2][KEYS * ROW];  // [stage][keys, values]
  const int kv = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = lane / 4, pair = lane % 4, head = kv * GROUP + warp;
  const int leaf = int(blockIdx.y + leaves) - int(gridDim.y);  // of a block for one leaf, which; less than 0 elsewhere
  const int alone = rows - leaves + leaf;
  const int split = leaf < 0 ? blockIdx.y : split_of(positions[alone]);
  int last = leaf < 0 ? 0 : positions[alone];
  for (int row = 0; leaf < 0 && row < rows; ++row) last = max(last, positions[row]);
  const int begin = split_start(split), end = min(split_start(split + 1), last + 1);
  if (begin >= end) return;

  unsigned query[STEPS][4];
#pragma unroll
  for (int k = 0; k < STEPS; ++k)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = group + (part % 2) * 8, dim = k * 16 + (part / 2) * 8 + pair * 2;
      query[k][part] = row < rows ? *reinterpret_cast<const unsigned*>(queries + (size_t(row) * HEADS + head) * SIZE + dim) : 0u;
    }
  int seen[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group + half * 8;
    seen[half] = row < rows && (leaf < 0 || row == alone) ? positions[row] : -1;
  }

  auto load = [&](int stage, int at) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const unsigned to = shared_at(memory[stage][which]);
      for (int part = threadIdx.x; part < KEYS * SIZE / 8; part += THREADS) {
        const int key = part / (SIZE / 8), piece = part % (SIZE / 8);
        int place = min(at + key, last);  // what is past the last row is not seen, but must be there
        if (leaf >= 0 && place == last) place = positions[rows + leaf];
        copy_16(to + key * ROW + piece * 16, cache + (size_t(which * KV + kv) * capacity + place) * SIZE + piece * 8);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float output[SIZE / 8][4] = {}, greatest[2] = {-infinite(), -infinite()}, total[2] = {0.f, 0.f};
  const float scale = rsqrtf(float(SIZE)) * LOG2E;
  load(0, begin);
  int stage = 0;
  for (int at = begin; at < end; at += KEYS, stage ^= 1) {
    if (at + KEYS < end) {
      load(stage ^ 1, at + KEYS);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();

    float score[KEYS / 8][4] = {};
    const unsigned keys = shared_at(memory[stage][0]) + ((lane / 16) * 8 + lane % 8) * ROW + ((lane / 8) % 2) * 16;
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
      for (int two = 0; two < KEYS / 16; ++two) {
        unsigned b[4];
        load_matrices(b, keys + two * 16 * ROW + k * 32);
        multiply(score[two * 2], query[k], b[0], b[1]);
        multiply(score[two * 2 + 1], query[k], b[2], b[3]);
      }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = greatest[half];
#pragma unroll
      for (int tile = 0; tile < KEYS / 8; ++tile)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int key = at + tile * 8 + pair * 2 + c;
          float& one = score[tile][half * 2 + c];
          one = key <= seen[half] ? one * scale : -infinite();
          most = fmaxf(most, one);
        }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float from_most = most == -infinite() ? 0.f : most;  // a row that sees nothing yet
      const float shrink = power_of_two(greatest[half] - from_most);
      greatest[half] = most;
      total[half] *= shrink;
#pragma unroll
      for (int tile = 0; tile < KEYS / 8; ++tile)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& one = score[tile][half * 2 + c];
          one = power_of_two(one - from_most);
          total[half] += one;
        }
#pragma unroll
      for (int tile = 0; tile < SIZE / 8; ++tile) {
        output[tile][half * 2] *= shrink;
        output[tile][half * 2 + 1] *= shrink;
      }
    }

    const unsigned values = shared_at(memory[stage][1]) + (((lane / 8) % 2) * 8 + lane % 8) * ROW + (lane / 16) * 16;
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
      const unsigned a[4] = {pack(score[k * 2][0], score[k * 2][1]), pack(score[k * 2][2], score[k * 2][3]),
                             pack(score[k * 2 + 1][0], score[k * 2 + 1][1]), pack(score[k * 2 + 1][2], score[k * 2 + 1][3])};
#pragma unroll
      for (int two = 0; two < SIZE / 16; ++two) {
        unsigned b[4];
        load_matrices_turned(b, values + k * 16 * ROW + two * 32);
        multiply(output[two * 2], a, b[0], b[1]);
        multiply(output[two * 2 + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
    const int row = group + half * 8;
    if (row >= rows) continue;
    if (leaf < 0 ? row >= rows - leaves && split_of(positions[row]) == split : row != alone) continue;
    const size_t at = (size_t(split) * rows + row) * HEADS + head;
    if (pair == 0) {
      weights[at * 2] = greatest[half];
      weights[at * 2 + 1] = total[half];
    }
#pragma unroll
    for (int tile = 0; tile < SIZE / 8; ++tile)
      *reinterpret_cast<float2*>(sums + at * SIZE + tile * 8 + pair * 2) = make_float2(output[tile][half * 2], output[tile][half * 2 + 1]);
  }
}

// The splits of every row and head, first to last: y [rows, HEADS * SIZE]. Blocks (HEADS, rows) of SIZE threads.
template <int HEADS, int SIZE>
__device__ __forceinline__ void attend_sum(const float* sums, const float* weights, const int* positions, bf16* y, int rows) {
  const int head = blockIdx.x, row = blockIdx.y, splits = split_of(positions[row]) + 1;
  const size_t first = size_t(row) * HEADS + head, step = size_t(rows) * HEADS;
  float most = -infinite();
  for (int split = 0; split < splits; ++split) most = fmaxf(most, weights[(first + split * step) * 2]);
  float output = 0.f, total = 0.f;
#pragma unroll 4
  for (int split = 0; split < splits; ++split) {
    const size_t at = first + split * step;
    const float share = power_of_two(weights[at * 2] - most);
    total += share * weights[at * 2 + 1];
    output += share * sums[at * SIZE + threadIdx.x];
  }
  y[first * SIZE + threadIdx.x] = bf16(output / total);
}

}  // namespace tf
// What stands between the products: sums with their norm, the turn of queries and keys, and a leaf that is kept.

namespace tf {

struct alignas(16) Eight {
  __nv_bfloat162 pairs[4];
};

// sum[r] = rows[r] + the slices of parts [SLICES, rows, D], first to last; normed[r] = its RMS norm times weight.
// A block a row, of THREADS threads, each with every THREADSth eight numbers.
template <int D, int SLICES, int THREADS>
__device__ __forceinline__ void add_and_norm(const bf16* rows, const float* parts, const bf16* weight, const float* eps,
                                             bf16* sum, bf16* normed, int count) {
  constexpr int EIGHTS = D / 8, EACH = (EIGHTS + THREADS - 1) / THREADS, WARPS = THREADS / 32;
  static_assert(D % 8 == 0 && THREADS % 32 == 0 && THREADS <= 1024, "whole eights and warps");
  __shared__ float shared[WARPS];
  const size_t row = blockIdx.x;
  float held[EACH][8], squares = 0.f;
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int at = each * THREADS + threadIdx.x;
    if (at >= EIGHTS) continue;
    float added[8] = {};
    for (int slice = 0; slice < SLICES; ++slice) {
      const float4* part = reinterpret_cast<const float4*>(parts + (size_t(slice) * count + row) * D) + at * 2;
      const float4 low = part[0], high = part[1];
      const float eight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) added[i] += eight[i];
    }
    const Eight old = reinterpret_cast<const Eight*>(rows + row * D)[at];
    Eight fresh;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = __bfloat1622float2(old.pairs[i]);
      fresh.pairs[i] = __floats2bfloat162_rn(two.x + added[i * 2], two.y + added[i * 2 + 1]);
      const float2 kept = __bfloat1622float2(fresh.pairs[i]);
      held[each][i * 2] = kept.x;
      held[each][i * 2 + 1] = kept.y;
      squares += kept.x * kept.x;
      squares += kept.y * kept.y;
    }
    reinterpret_cast<Eight*>(sum + row * D)[at] = fresh;
  }
#pragma unroll
  for (int by = 16; by; by /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, by);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = squares;
  __syncthreads();
  float all = 0.f;
#pragma unroll
  for (int warp = 0; warp < WARPS; ++warp) all += shared[warp];
  const float scale = rsqrtf(all / D + eps[0]);
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int at = each * THREADS + threadIdx.x;
    if (at >= EIGHTS) continue;
    const Eight by = reinterpret_cast<const Eight*>(weight)[at];
    Eight out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = __bfloat1622float2(by.pairs[i]);
      out.pairs[i] = __floats2bfloat162_rn(held[each][i * 2] * scale * two.x, held[each][i * 2 + 1] * scale * two.y);
    }
    reinterpret_cast<Eight*>(normed + row * D)[at] = out;
  }
}

// y [rows, N] = the slices of parts [SLICES, rows, N], first to last. A thread a number.
template <int N, int SLICES>
__device__ __forceinline__ void add_slices(const float* parts, bf16* y, int rows) {
  const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x, all = size_t(rows) * N;
  if (at >= all) return;
  float total = 0.f;
#pragma unroll
  for (int slice = 0; slice < SLICES; ++slice) total += parts[slice * all + at];
  y[at] = bf16(total);
}

// asked [rows, (HEADS + 2 KV) SIZE] -> queries [rows, HEADS, SIZE] and written [rows, 2 KV, SIZE]; queries and keys are
// turned by angles [rows, SIZE], cosines over sines. A thread a pair of numbers, SIZE / 2 threads a head.
template <int HEADS, int KV, int SIZE>
__device__ __forceinline__ void rotate(const bf16* asked, const float* angles, bf16* queries, bf16* written, int rows) {
  constexpr int HALF = SIZE / 2, ALL = HEADS + 2 * KV;
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= rows * ALL * HALF) return;
  const int i = at % HALF, head = at / HALF % ALL, row = at / (HALF * ALL);
  const bf16* from = asked + (size_t(row) * ALL + head) * SIZE;
  float first = float(from[i]), second = float(from[i + HALF]);
  if (head < HEADS + KV) {
    const float cosine = angles[row * SIZE + i], sine = angles[row * SIZE + HALF + i];
    const float turned = first * cosine - second * sine;
    second = first * sine + second * cosine;
    first = turned;
  }
  bf16* to = head < HEADS ? queries + (size_t(row) * HEADS + head) * SIZE
                          : written + (size_t(row) * 2 * KV + head - HEADS) * SIZE;
  to[i] = bf16(first);
  to[i + HALF] = bf16(second);
}

template <int LAYERS>
struct Caches {
  const bf16* layers[LAYERS];
};

// Row places[0] over row places[1] of every layer's cache [LANES, capacity, SIZE]. A block a layer.
template <int LAYERS, int LANES, int SIZE>
__device__ __forceinline__ void move_row(const Caches<LAYERS> caches, const int* places, int* done, int capacity) {
  bf16* layer = const_cast<bf16*>(caches.layers[blockIdx.x]);  // nobody else has the caches, and nothing runs beside this
  for (int at = threadIdx.x; at < LANES * SIZE / 8; at += blockDim.x) {
    bf16* lane = layer + size_t(at / (SIZE / 8)) * capacity * SIZE + at % (SIZE / 8) * 8;
    *reinterpret_cast<uint4*>(lane + size_t(places[1]) * SIZE) = *reinterpret_cast<const uint4*>(lane + size_t(places[0]) * SIZE);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *done = 1;
}

}  // namespace tf

__global__ void a(const tf::bf16*q,const tf::bf16*c,const int*p,float*s,float*w,int r,int l,int cap){ tf::attend_split<64,8,128>(q,c,p,s,w,r,l,cap);}
__global__ void a2(const tf::bf16*q,const tf::bf16*c,const int*p,float*s,float*w,int r,int l,int cap){ tf::attend_split<9,3,64>(q,c,p,s,w,r,l,cap);}
__global__ void m(const int* places,const tf::bf16*layer0,const tf::bf16*layer1,const tf::bf16*layer2,int* done,int cap){ tf::move_row<3,16,128>({{layer0,layer1,layer2}}, places, done, cap);}
