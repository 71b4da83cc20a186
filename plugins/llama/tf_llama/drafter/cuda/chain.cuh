// A whole chain of drafts in one launch: every step of up to four streams, without the host.
//
// A step of a small drafter is a hundred small operations that each wait for the last. Here they are passes of one grid
// whose blocks meet after every operation, a microsecond a meeting, with the next weights on their way meanwhile.
#pragma once
#include "drawing.cuh"
#include "layer.cuh"
#include "meeting.cuh"

namespace tf {

template <typename S>
__device__ __forceinline__ void run_layer(State<S>& s, int layer, bool drawing, const float* frequencies, unsigned* turns,
                                          unsigned& due) {
  const bf16* norm = s.weights.attend_norms + layer * S::H;
  if (layer == 0) take_tokens(s, norm);
  else take_all(s, norm);
  ask(s, layer, frequencies);
  meet(turns, due);
  look(s, layer);
  s.ring.template start<Output<S>>(Output<S>::of(s.weights, layer));
  meet(turns, due);
  take_attended(s);
  add<Output<S>>(s, layer);
  s.ring.template start<GateUp<S>>(GateUp<S>::of(s.weights, layer));
  meet(turns, due);
  take_all(s, s.weights.mlp_norms + layer * S::H);
  gate(s, layer);
  s.ring.template start<Down<S>>(Down<S>::of(s.weights, layer));
  meet(turns, due);
  take_inner(s);
  add<Down<S>>(s, layer);
  if (layer + 1 == S::L && drawing) s.ring.template start<Head<S>>(Head<S>::of(s.weights, 0));
  else s.ring.template start<Attend<S>>(Attend<S>::of(s.weights, (layer + 1) % S::L));
  meet(turns, due);
}

// Blocks of THREADS threads, one a multiprocessor. Dynamic shared memory: `memory` of plan.py.
// sent: STREAMS times 1 / temperature, as float32; passes and steps; STREAMS times (base, first row of noise or -1); then
// pass after pass how many rows it has and ROWS of them. turns [64], zeros. tokens [STREAMS, steps, BEST] and, after them,
// whether the chain was given up.
template <int L, int H, int HEADS, int KV, int SIZE, int I, int V, int ROWS, int TAIL>
__device__ __forceinline__ void draft_chain(const int* sent, const float* frequencies, const float* noise,
                                            const int* turns, const float* eps, const Weights& weights,
                                            const bf16* const (&caches)[STREAMS], const int (&capacities)[STREAMS],
                                            bf16* const (&written)[STREAMS], const Scratch& scratch, int* tokens) {
  using S = Shape<L, H, HEADS, KV, SIZE, I, V, ROWS, TAIL>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Stream streams[STREAMS];
  __shared__ Row rows[ROWS];
  __shared__ float norms[ROWS];
  __shared__ int drafts[STREAMS], drawing[STREAMS], drawn;
  unsigned* meeting = reinterpret_cast<unsigned*>(const_cast<int*>(turns));  // zeros that nobody else has
  unsigned due = 0;
  const float* scales = reinterpret_cast<const float*>(sent);
  const int* schedule = sent + STREAMS;
  const int passes = schedule[0], steps = schedule[1];
#pragma unroll
  for (int n = 0; n < STREAMS; ++n)
    if (threadIdx.x == n)
      streams[n] = Stream{caches[n], written[n], capacities[n], schedule[2 + n * 2], schedule[3 + n * 2], scales[n]};
  const Ring ring = Ring::of(memory + S::RING_AT);
  State<S> s{weights, scratch, streams, rows, ring, reinterpret_cast<bf16*>(memory), norms, drafts, eps[0], 0};
  ring.template start<Attend<S>>(Attend<S>::of(weights, 0));
  for (int pass = 0; pass < passes; ++pass) {
    const int* plan = schedule + 2 + STREAMS * 2 + pass * (1 + ROWS * FIELDS);
    __syncthreads();
    s.count = plan[0];
    for (int at = threadIdx.x; at < s.count * FIELDS; at += THREADS) reinterpret_cast<int*>(rows)[at] = plan[1 + at];
    __syncthreads();
    if (threadIdx.x == 0) {
      drawn = 0;
      for (int row = 0; row < s.count; ++row)
        if (rows[row].draw >= 0) drawing[drawn++] = row;
    }
    __syncthreads();
    for (int layer = 0; layer < L; ++layer) run_layer(s, layer, drawn > 0, frequencies, meeting, due);
    if (drawn) {
      draw(s, drawing, drawn, noise);
      s.ring.template start<Attend<S>>(Attend<S>::of(weights, 0));
      meet(meeting, due);
      settle(s, drawing, drawn, tokens, steps);
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");  // a pass that does not follow was started
  if (blockIdx.x == 0 && threadIdx.x == 0) tokens[STREAMS * steps * BEST] = seen(meeting + GAVE_UP);
}

}  // namespace tf
