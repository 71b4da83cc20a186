// y[r] = x[r] @ w.T for up to 16 rows. The weights stream through shared memory once; the rows stay in it.
//
// A row's sum has one order whatever the rows beside it: warp w sums the steps of 16 that begin at w * RUN in every
// 8 * RUN of the depth, then the eight sums are added from the first to the last, then (by whoever reads them) the slices.
#pragma once
#include "common.cuh"

namespace tf {

enum Ending { PLAIN, PARTIAL, GATED };

// x [rows, K], w [N, K]. PLAIN: y [rows, N] in bfloat16. PARTIAL: y [SLICES, rows, N] in float32, not yet summed.
// GATED: w is gate over up, y [rows, N / 2] = silu(gate) * up in bfloat16.
//
// Blocks of 256 threads. Each keeps one slice of the depth and takes every (gridDim.x / SLICES)th tile of 16 outputs.
// A warp loads what it multiplies itself, AHEAD runs ahead, so that warps meet only at a tile's end.
// Dynamic shared memory: `held` of plan.py.
template <int N, int K, int SLICES, int RUN, int AHEAD, Ending ENDING, typename Out>
__device__ __forceinline__ void linear_rows(const bf16* x, const bf16* w, Out* y, int rows) {
  constexpr int WARPS = 8, DEPTH = K / SLICES, TILES = (N + 15) / 16, X_ROW = DEPTH * 2 + 16;
  constexpr int PIECES = RUN / 8, AT_ONCE = 32 / PIECES, ROW = RUN * 2, SLOT = 16 * ROW;  // pieces of 16 bytes
  constexpr int SUMS = 20, WARP_SUMS = 16 * SUMS;  // a row of sums, and a warp's; 20 and not 16 for the banks
  static_assert(K % SLICES == 0 && DEPTH % RUN == 0 && (RUN == 32 || RUN == 64), "the depth must divide");
  static_assert(ENDING != GATED || (N % 16 == 0 && SLICES == 1), "gate and up in whole tiles of whole sums");
  extern __shared__ __align__(128) unsigned char memory[];
  float* sums = reinterpret_cast<float*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int step = gridDim.x / SLICES, slice = blockIdx.x / step, first = blockIdx.x % step;
  if (slice >= SLICES || first >= TILES) return;
  const unsigned slots = shared_at(memory) + WARPS * WARP_SUMS * 4 + warp * AHEAD * SLOT;
  const unsigned x_at = shared_at(memory) + WARPS * (WARP_SUMS * 4 + AHEAD * SLOT);

  // Pieces of a row are swapped by the row's number, so that eight rows use all banks.
  auto swapped = [](int row, int piece) { return row * ROW + ((piece ^ (PIECES == 8 ? row % 8 : row / 2 % 4)) * 16); };
  const int my_row = lane / PIECES, my_piece = lane % PIECES;
  int load_tile = first, load_k = warp * RUN;
  auto load = [&](int slot) {
    while (load_k >= DEPTH && load_tile < TILES) load_tile += step, load_k = warp * RUN;
    if (load_tile < TILES && load_k < DEPTH) {
#pragma unroll
      for (int at = 0; at < 16; at += AT_ONCE) {
        const int row = at + my_row;
        int output = load_tile * 16 + row;
        if (ENDING == GATED) output = row < 8 ? load_tile * 8 + row : N / 2 + load_tile * 8 + row - 8;
        else if (N % 16 != 0) output = min(output, N - 1);
        copy_16(slots + slot * SLOT + swapped(row, my_piece), w + size_t(output) * K + slice * DEPTH + load_k + my_piece * 8);
      }
      load_k += WARPS * RUN;
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (warp * RUN >= DEPTH) load_tile = TILES;

  for (int piece = threadIdx.x; piece < rows * (DEPTH / 8); piece += WARPS * 32) {
    const int row = piece / (DEPTH / 8), at = piece % (DEPTH / 8);
    copy_16(x_at + row * X_ROW + at * 16, x + size_t(row) * K + slice * DEPTH + at * 8);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
  for (int slot = 0; slot < AHEAD - 1; ++slot) load(slot);
  asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
  __syncthreads();

  const int a_row = lane % 16, a_piece = lane / 16;
  const unsigned b_lane = x_at + ((lane / 16) * 8 + lane % 8) * X_ROW + ((lane / 8) % 2) * 16;
  int slot = 0;
  for (int tile = first; tile < TILES; tile += step) {
    float sum[2][4] = {};
    for (int at = warp * RUN; at < DEPTH; at += WARPS * RUN) {
      asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2) : "memory");
      __syncwarp();
      load(slot == 0 ? AHEAD - 1 : slot - 1);
#pragma unroll
      for (int k = 0; k < RUN / 16; ++k) {
        unsigned a[4], b[4];
        load_matrices(a, slots + slot * SLOT + swapped(a_row, k * 2 + a_piece));
        load_matrices(b, b_lane + (at + k * 16) * 2);
        multiply(sum[0], a, b[0], b[1]);
        multiply(sum[1], a, b[2], b[3]);
      }
      __syncwarp();
      if (++slot == AHEAD) slot = 0;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = half * 8 + (lane % 4) * 2 + (c & 1), output = lane / 4 + (c / 2) * 8;
        sums[warp * WARP_SUMS + row * SUMS + output] = sum[half][c];
      }
    __syncthreads();
    const int row = threadIdx.x / 16, output = threadIdx.x % 16;
    float total = 0.f;
#pragma unroll
    for (int of = 0; of < WARPS; ++of) total += sums[of * WARP_SUMS + row * SUMS + output];
    if (ENDING == GATED) {
      const float up = __shfl_down_sync(0xffffffffu, total, 8, 16);
      if (row < rows && output < 8)
        y[size_t(row) * (N / 2) + tile * 8 + output] = Out(total / (1.f + power_of_two(-total * LOG2E)) * up);
    } else if (row < rows && (N % 16 == 0 || tile * 16 + output < N)) {
      y[(size_t(ENDING == PARTIAL ? slice : 0) * rows + row) * N + tile * 16 + output] = Out(total);
    }
    __syncthreads();
  }
}

}  // namespace tf
