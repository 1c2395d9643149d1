// Small PTX kernels for the tests of the runtime on a GPU.
#pragma once

#include <string>

#define PTX_HEADER ".version 8.0\n.target sm_90a\n.address_size 64\n"

// c[i] = a[i] + b[i] for i < n.
inline const std::string kAdd = PTX_HEADER R"(
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %i, %n, %x, %y;
  .reg .f32 %f, %g;
  .reg .b64 %a, %b, %c, %o;
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mov.u32 %i, %tid.x;
  mad.lo.u32 %i, %x, %y, %i;
  ld.param.u32 %n, [n];
  setp.ge.u32 %p, %i, %n;
  @%p bra DONE;
  ld.param.u64 %a, [a];
  ld.param.u64 %b, [b];
  ld.param.u64 %c, [c];
  mul.wide.u32 %o, %i, 4;
  add.u64 %a, %a, %o;
  add.u64 %b, %b, %o;
  add.u64 %c, %c, %o;
  ld.global.f32 %f, [%a];
  ld.global.f32 %g, [%b];
  add.f32 %f, %f, %g;
  st.global.f32 [%c], %f;
DONE:
  ret;
}
)";

// Every thread writes to the end of 200 KB of shared memory, and reads what the opposite thread wrote: out[t]
// = last - t.
inline const std::string kLargeShared = PTX_HEADER R"(
.extern .shared .align 128 .b8 dynamic[];
.visible .entry large_shared(.param .u64 out) {
  .reg .b32 %t, %last, %s, %v, %base;
  .reg .b64 %out, %o;
  mov.u32 %t, %tid.x;
  mov.u32 %last, %ntid.x;
  sub.u32 %last, %last, 1;
  mov.u32 %base, dynamic;
  add.u32 %base, %base, 204800;
  mad.lo.u32 %s, %t, -4, %base;
  st.shared.u32 [%s + -4], %t;
  bar.sync 0;
  sub.u32 %v, %last, %t;
  mad.lo.u32 %s, %v, -4, %base;
  ld.shared.u32 %v, [%s + -4];
  ld.param.u64 %out, [out];
  mul.wide.u32 %o, %t, 4;
  add.u64 %out, %out, %o;
  st.global.u32 [%out], %v;
  ret;
}
)";

// out[cta] = rank in the cluster + 100 x CTAs in the cluster.
inline const std::string kClusterBody = R"({
  .reg .b32 %c, %r, %n;
  .reg .b64 %out, %o;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mov.u32 %c, %ctaid.x;
  mov.u32 %r, %cluster_ctarank;
  mov.u32 %n, %cluster_nctarank;
  mad.lo.u32 %r, %n, 100, %r;
  ld.param.u64 %out, [out];
  mul.wide.u32 %o, %c, 4;
  add.u64 %out, %out, %o;
  st.global.u32 [%out], %r;
  ret;
}
)";
inline const std::string kCluster = PTX_HEADER ".visible .entry cluster(.param .u64 out)\n" + kClusterBody;
inline const std::string kClusterOfTwo =
    PTX_HEADER ".visible .entry cluster_of_two(.param .u64 out) .explicitcluster .reqnctapercluster 2\n" +
    kClusterBody;

// One thread uses TMA to load a box of 16 x 8 f32 at (x, y) of `in`, and stores it at (0, 0) of `out`.
inline const std::string kCopyBox = PTX_HEADER R"(
.shared .align 128 .b8 box[512];
.shared .align 8 .b64 full;
.visible .entry copy_box(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128], .param .s32 x, .param .s32 y) {
  .reg .pred %p;
  .reg .b32 %t, %x, %y, %zero, %box, %full;
  .reg .b64 %in, %out, %state;
  mov.u32 %t, %tid.x;
  setp.ne.u32 %p, %t, 0;
  @%p bra DONE;
  mov.b64 %in, in;
  cvta.param.u64 %in, %in;
  mov.b64 %out, out;
  cvta.param.u64 %out, %out;
  ld.param.s32 %x, [x];
  ld.param.s32 %y, [y];
  mov.u32 %zero, 0;
  mov.u32 %box, box;
  mov.u32 %full, full;
  mbarrier.init.shared::cta.b64 [%full], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%full], 512;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%box], [%in, {%x, %y}], [%full];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%full], 0;
  @!%p bra WAIT;
  fence.proxy.async.shared::cta;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%out, {%zero, %zero}], [%box];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
  ret;
}
)";

// Waits for flag[0] to change, which never happens.
inline const std::string kSpin = PTX_HEADER R"(
.visible .entry spin(.param .u64 flag) {
  .reg .pred %p;
  .reg .b32 %v;
  .reg .b64 %a;
  ld.param.u64 %a, [flag];
AGAIN:
  ld.volatile.global.u32 %v, [%a];
  setp.eq.u32 %p, %v, 0;
  @%p bra AGAIN;
  ret;
}
)";

// After `wait` nanoseconds, value[0] = 3 x value[0] + add.
inline const std::string kLate = PTX_HEADER R"(
.visible .entry late(.param .u64 value, .param .u32 add, .param .u64 wait) {
  .reg .pred %p;
  .reg .b32 %v, %d;
  .reg .b64 %a, %w, %s, %t;
  ld.param.u64 %a, [value];
  ld.param.u32 %d, [add];
  ld.param.u64 %w, [wait];
  mov.u64 %s, %globaltimer;
AGAIN:
  mov.u64 %t, %globaltimer;
  sub.u64 %t, %t, %s;
  setp.lt.u64 %p, %t, %w;
  @%p bra AGAIN;
  ld.global.u32 %v, [%a];
  mad.lo.u32 %v, %v, 3, %d;
  st.global.u32 [%a], %v;
  ret;
}
)";

inline const std::string kTrap = PTX_HEADER R"(
.visible .entry fail() {
  trap;
  ret;
}
)";

// After a delay, value[0] = 3 x value[0] + 1. The kernel permits the next launch to start early.
inline const std::string kStep = PTX_HEADER R"(
.visible .entry step(.param .u64 value) {
  .reg .pred %p;
  .reg .b32 %v, %t;
  .reg .b64 %a;
  griddepcontrol.launch_dependents;
  griddepcontrol.wait;
  mov.u32 %t, %tid.x;
  setp.ne.u32 %p, %t, 0;
  @%p bra DONE;
  nanosleep.u32 20000;
  ld.param.u64 %a, [value];
  ld.global.u32 %v, [%a];
  mad.lo.u32 %v, %v, 3, 1;
  st.global.u32 [%a], %v;
DONE:
  ret;
}
)";

inline const std::string kPrint = PTX_HEADER R"(
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
// "number %u printed\n"
.global .align 1 .b8 text[19] = {110, 117, 109, 98, 101, 114, 32, 37, 117, 32, 112, 114, 105, 110, 116, 101, 100, 10, 0};
.visible .entry print(.param .u32 number) {
  .local .align 8 .b8 values[8];
  .reg .b32 %n;
  .reg .b64 %text, %values;
  ld.param.u32 %n, [number];
  st.local.u32 [values], %n;
  mov.u64 %text, text;
  cvta.global.u64 %text, %text;
  mov.u64 %values, values;
  cvta.local.u64 %values, %values;
  {
    .param .b64 format;
    .param .b64 list;
    .param .b32 printed;
    st.param.b64 [format], %text;
    st.param.b64 [list], %values;
    call (printed), vprintf, (format, list);
  }
  ret;
}
)";

inline const std::string kBad = PTX_HEADER R"(
.visible .entry bad(.param .u64 a) {
  .reg .b32 %v;
  frobnicate.u32 %v, 1;
  ret;
}
)";
