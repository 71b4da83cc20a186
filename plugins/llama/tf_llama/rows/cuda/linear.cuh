// y[r] = x[r] @ w.T for up to 16 rows. The weights stream through shared memory once; the rows stay in it.
//
// A row's sum has one order whatever the rows beside it: warp w sums the steps of 16 that begin at w * RUN in every
// 8 * RUN of the depth, then the eight sums are added from the first to the last, then (by whoever reads them) the slices.
#pragma once
#include "common.cuh"

namespace tf {

// A product of rows [.., depth] and weights [outputs, depth], as one launch or as a part of one.
//
// group: 0 where a tile has 16 outputs in a row. Else each has eight and the eight that stand half a group further on:
// of all outputs gate and up, of a head's the numbers that are turned together.
struct Cut {
  int outputs, depth, slices, group;
};

// One block's part: one slice of the depth, and every (gridDim.x / slices)th tile.
//
// Blocks of 256 threads. A warp loads what it multiplies itself, AHEAD runs ahead, so that warps meet only at a tile's
// end. Dynamic shared memory: `held` of plan.py, for ROWS rows; they are its last part, so the ring may be started before
// they are there.
template <int ROWS, int RUN, int AHEAD>
struct Product {
  static constexpr int WARPS = 8, PIECES = RUN / 8, AT_ONCE = 32 / PIECES, ROW = RUN * 2, SLOT = 16 * ROW;  // pieces: 16 bytes
  static constexpr int SUMS = 20, WARP_SUMS = ROWS * SUMS;  // a row of sums, and a warp's; 20 and not 16 for the banks
  static constexpr int X_AT = WARPS * (WARP_SUMS * 4 + AHEAD * SLOT), IN_A_ROW = WARPS * RUN;
  static_assert(ROWS == 8 || ROWS == 16, "columns of the matrix instruction");
  static_assert(RUN == 32 || RUN == 64, "banks");

  Cut cut;
  const bf16* w;
  unsigned memory;
  int depth, tiles, step, slice, first, load_tile, load_k;
  const bf16* from[16 / AT_ONCE];

  __device__ __forceinline__ Product(const Cut& of, const bf16* weights, unsigned shared) : cut(of), w(weights), memory(shared) {
    depth = cut.depth / cut.slices, tiles = (cut.outputs + 15) / 16, step = gridDim.x / cut.slices, slice = blockIdx.x / step;
    first = slice < cut.slices ? int(blockIdx.x) % step : tiles;
    load_k = threadIdx.x / 32 * RUN, load_tile = load_k < depth ? first : tiles;
    aim();
  }

  __device__ __forceinline__ int output_of(int tile, int row) const {
    if (cut.group == 0) return min(tile * 16 + row, cut.outputs - 1);
    const int in = cut.group / 16, at = tile / in * cut.group + tile % in * 8;
    return row < 8 ? at + row : at + cut.group / 2 + row - 8;
  }

  __device__ __forceinline__ void aim() {
    if (load_tile >= tiles) return;
#pragma unroll
    for (int i = 0; i < 16 / AT_ONCE; ++i) {
      const int row = i * AT_ONCE + threadIdx.x % 32 / PIECES;
      from[i] = w + size_t(output_of(load_tile, row)) * cut.depth + slice * depth + threadIdx.x % PIECES * 8;
    }
  }

  // Pieces of a row are swapped by the row's number, so that eight rows use all banks.
  static __device__ __forceinline__ int swapped(int row, int piece) {
    return row * ROW + ((piece ^ (PIECES == 8 ? row % 8 : row / 2 % 4)) * 16);
  }

  __device__ __forceinline__ unsigned slots() const { return memory + WARPS * WARP_SUMS * 4 + threadIdx.x / 32 * AHEAD * SLOT; }

  __device__ __forceinline__ void load(int slot) {
    if (load_tile < tiles) {
#pragma unroll
      for (int i = 0; i < 16 / AT_ONCE; ++i)
        copy_16(slots() + slot * SLOT + swapped(i * AT_ONCE + threadIdx.x % 32 / PIECES, threadIdx.x % PIECES), from[i] + load_k);
      load_k += IN_A_ROW;
      if (load_k >= depth) {
        load_tile += step, load_k = threadIdx.x / 32 * RUN;
        aim();
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // The first runs, on their way.
  __device__ __forceinline__ void start() {
#pragma unroll 1
    for (int slot = 0; slot < AHEAD - 1; ++slot) load(slot);
  }

  __device__ __forceinline__ unsigned x_row(int row) const { return memory + X_AT + row * (depth * 2 + 16); }

  // use(row, eight): for each eight numbers of the block's slice of the rows.
  template <typename Use>
  __device__ __forceinline__ void each_eight(int rows, Use use) const {
    if (slice >= cut.slices) return;
    // Every block from another place on: all at the same line at once wait for one part of the L2 cache.
    const int eights = depth / 8, all = rows * eights, begin = threadIdx.x + all / step * (blockIdx.x % step);
    int row = begin / eights, at = begin % eights;
#pragma unroll 4
    for (int nth = threadIdx.x; nth < all; nth += WARPS * 32) {
      use(row < rows ? row : row - rows, at);
      for (at += WARPS * 32; at >= eights; at -= eights) ++row;
    }
  }

  // The block's slice of the rows, on its way: one group.
  __device__ __forceinline__ void take(const bf16* x, int rows) const {
    each_eight(rows, [&](int row, int at) { copy_16(x_row(row) + at * 16, x + size_t(row) * cut.depth + slice * depth + at * 8); });
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // use(tile, row, output, total) for ROWS rows, by whole warps that have the 16 outputs of two rows each. The ring was
  // started, and the rows are there for everyone.
  template <typename Use>
  __device__ __forceinline__ void run(float* sums, Use use) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned a_slots = slots(), b_lane = x_row((ROWS == 16 ? lane / 16 * 8 : 0) + lane % 8) + ((lane / 8) % 2) * 16;
    const int a_row = lane % 16, a_piece = lane / 16;
    int slot = 0;
    for (int tile = first; tile < tiles; tile += step) {
      float sum[ROWS / 8][4] = {};
#pragma unroll 1
      for (int at = warp * RUN; at < depth; at += IN_A_ROW) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2) : "memory");
        __syncwarp();
        load(slot == 0 ? AHEAD - 1 : slot - 1);
#pragma unroll
        for (int k = 0; k < RUN / 16; ++k) {
          unsigned a[4], b[4];
          load_matrices(a, a_slots + slot * SLOT + swapped(a_row, k * 2 + a_piece));
          load_matrices(b, b_lane + (at + k * 16) * 2);
          multiply(sum[0], a, b[0], b[1]);
          if (ROWS == 16) multiply(sum[ROWS / 16], a, b[2], b[3]);
        }
        __syncwarp();
        if (++slot == AHEAD) slot = 0;
      }
#pragma unroll
      for (int half = 0; half < ROWS / 8; ++half)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int row = half * 8 + (lane % 4) * 2 + (c & 1), output = lane / 4 + (c / 2) * 8;
          sums[warp * WARP_SUMS + row * SUMS + output] = sum[half][c];
        }
      __syncthreads();
      const int row = threadIdx.x / 16, output = threadIdx.x % 16;
      if (row < ROWS) {
        float total = 0.f;
#pragma unroll
        for (int of = 0; of < WARPS; ++of) total += sums[of * WARP_SUMS + row * SUMS + output];
        use(tile, row, output, total);
      }
      __syncthreads();
    }
  }
};

// silu(gate) * up of a tile of HALVES, in the threads of the gates: the first eight outputs.
__device__ __forceinline__ float gated(float total) {
  const float up = __shfl_down_sync(0xffffffffu, total, 8, 16);
  return total / (1.f + power_of_two(-total * LOG2E)) * up;
}

enum Ending { PLAIN, PARTIAL, GATED };

// x [rows, K], w [N, K]. PARTIAL: y [SLICES, rows, N] in float32, not yet summed. Else sums are multiplied by scale [rows].
// PLAIN: y [rows, N] in bfloat16. GATED: w is gate over up, y [rows, N / 2] = silu(gate) * up in bfloat16.
template <int N, int K, int SLICES, int RUN, int AHEAD, Ending ENDING, typename Out>
__device__ __forceinline__ void linear_rows(const bf16* x, const bf16* w, const float* scale, Out* y, int rows) {
  static_assert(K % SLICES == 0 && K / SLICES % RUN == 0, "the depth must divide");
  static_assert(ENDING != GATED || (SLICES == 1 && N % 16 == 0), "gate and up of whole sums, in whole tiles");
  extern __shared__ __align__(128) unsigned char memory[];
  Product<16, RUN, AHEAD> product(Cut{N, K, SLICES, ENDING == GATED ? N : 0}, w, shared_at(memory));
  product.take(x, rows);
  product.start();
  asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
  __syncthreads();
  product.run(reinterpret_cast<float*>(memory), [&](int tile, int row, int output, float total) {
    if (ENDING != PARTIAL) total = __fmul_rn(total, row < rows ? scale[row] : 0.f);
    if (ENDING == GATED) {
      const float value = gated(total);
      if (row < rows && output < 8) y[size_t(row) * (N / 2) + tile * 8 + output] = Out(value);
    } else if (row < rows && (N % 16 == 0 || tile * 16 + output < N)) {
      y[(size_t(ENDING == PARTIAL ? product.slice : 0) * rows + row) * N + tile * 16 + output] = Out(total);
    }
  });
}

}  // namespace tf
