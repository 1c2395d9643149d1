// One CUTLASS kernel for Hopper, which the macros of build_cutlass select.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass_kernel.h"

namespace {

using bf16 = cutlass::bfloat16_t;
using f16 = cutlass::half_t;
using e4m3 = cutlass::float_e4m3_t;

#define PEER_TEXT_OF(x) #x
#define PEER_TEXT(x) PEER_TEXT_OF(x)

struct Cooperative {
  static constexpr const char* kName = "cooperative";
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
  using Epilogue = cutlass::epilogue::TmaWarpSpecializedCooperative;
  using Scheduler = cutlass::gemm::PersistentScheduler;
};
struct StreamK : Cooperative {
  static constexpr const char* kName = "stream-K";
  using Scheduler = cutlass::gemm::StreamKScheduler;
};
struct Pingpong {
  static constexpr const char* kName = "ping-pong";
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
  using Epilogue = cutlass::epilogue::TmaWarpSpecialized;
  using Scheduler = cutlass::gemm::PersistentScheduler;
};
// The sums of 8-bit floats remain on the tensor cores. The other kernels add these sums to f32 sums after
// every 128 values of k.
struct CooperativeFast : Cooperative {
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum;
};
struct PingpongFast : Pingpong {
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum;
};
// Each CTA has one tile, which one consumer warpgroup computes.
struct WarpSpecialized {
  static constexpr const char* kName = "warp-specialized";
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecialized;
  using Epilogue = cutlass::epilogue::TmaWarpSpecialized;
  using Scheduler = void;
};

using Input = PEER_INPUT;
using Output = PEER_OUTPUT;
using Schedule = PEER_SCHEDULE;
using Tile = cute::Shape<cute::Int<PEER_M>, cute::Int<PEER_N>, cute::Int<PEER_K>>;
using Cluster = cute::Shape<cute::Int<PEER_CLUSTER_M>, cute::Int<PEER_CLUSTER_N>, cute::_1>;
constexpr int kAligned = 16 / sizeof(Input), kAlignedD = 16 / sizeof(Output);

// C is not used: its type is void, and beta is 0.
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, kAlignedD,
    Output, cutlass::layout::RowMajor, kAlignedD, Schedule::Epilogue>::CollectiveOp;
using Stages = std::conditional_t<PEER_STAGES == 0,  // as many as fit
                                  cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
                                      sizeof(typename Epilogue::SharedStorage))>,
                                  cutlass::gemm::collective::StageCount<PEER_STAGES>>;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Input, cutlass::layout::RowMajor, kAligned, Input,
    cutlass::layout::ColumnMajor, kAligned, float, Tile, Cluster, Stages, Schedule::Mainloop>::CollectiveOp;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<cutlass::gemm::kernel::GemmUniversal<
    cute::Shape<int, int, int, int>, Mainloop, Epilogue, Schedule::Scheduler>>;

typename Gemm::Arguments arguments(const peer::Problem& p, peer::Order order, peer::Pointers at) {
  typename Gemm::Arguments a{};
  a.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  a.problem_shape = {p.m, p.n, p.k, 1};
  a.mainloop.ptr_A = static_cast<const Input*>(at.a);
  a.mainloop.ptr_B = static_cast<const Input*>(at.b);
  cute::get<0>(a.mainloop.dA) = p.lda;
  cute::get<0>(a.mainloop.dB) = p.ldb;
  a.epilogue.thread.alpha = 1;
  a.epilogue.thread.beta = 0;
  a.epilogue.ptr_D = static_cast<Output*>(at.d);
  cute::get<0>(a.epilogue.dD) = p.ldd;
  cudaGetDevice(&a.hw_info.device_id);
  a.hw_info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(a.hw_info.device_id);
  using Raster = decltype(a.scheduler.raster_order);
  a.scheduler.max_swizzle_size = order.most_swizzle;
  a.scheduler.raster_order = order.raster == peer::Order::along_m   ? Raster::AlongM
                             : order.raster == peer::Order::along_n ? Raster::AlongN
                                                                    : Raster::Heuristic;
  return a;
}

class ThisLaunch final : public peer::Launch {
 public:
  std::string queue(cudaStream_t stream, bool early) override {
    cutlass::Status status = cutlass::Status::kSuccess;
    // Stream-K has counters in its workspace, which must initially be zero.
    if (again.workspace)
      status = Gemm::GemmKernel::initialize_workspace(again.arguments, again.workspace, stream);
    if (status == cutlass::Status::kSuccess) status = gemm.run(stream, nullptr, early);
    return status == cutlass::Status::kSuccess ? "" : cutlass::cutlassGetStatusString(status);
  }
  Gemm gemm;
  struct {
    typename Gemm::Arguments arguments{};
    void* workspace = nullptr;
  } again;
};

class ThisKernel final : public peer::Kernel {
 public:
  ThisKernel() { peer::kernels().push_back(this); }
  std::string name() const override {
    return std::string(Schedule::kName) +
           " " PEER_TEXT(PEER_M) "x" PEER_TEXT(PEER_N) "x" PEER_TEXT(PEER_K) ", cluster " PEER_TEXT(
               PEER_CLUSTER_M) "x" PEER_TEXT(PEER_CLUSTER_N);
  }
  std::string input() const override { return PEER_TEXT(PEER_INPUT); }
  std::string output() const override { return PEER_TEXT(PEER_OUTPUT); }
  bool streams_k() const override { return std::is_same_v<Schedule, StreamK>; }
  size_t workspace_bytes(const peer::Problem& p, peer::Order order) const override {
    return Gemm::get_workspace_size(arguments(p, order, {}));
  }
  std::unique_ptr<peer::Launch> prepare(const peer::Problem& p, peer::Order order, peer::Pointers at,
                                        void* workspace, cudaStream_t stream) const override {
    auto launch = std::make_unique<ThisLaunch>();
    const typename Gemm::Arguments all = arguments(p, order, at);
    if (launch->gemm.initialize(all, workspace, stream) != cutlass::Status::kSuccess) return nullptr;
    if (streams_k()) {
      launch->again.arguments = all;
      launch->again.workspace = workspace;
    }
    return launch;
  }
} const this_kernel;

}  // namespace
