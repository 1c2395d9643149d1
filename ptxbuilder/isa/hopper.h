// Lists the limits of a Hopper GPU (compute capability 9.0), each with its source.
#pragma once

#include <cstdint>

namespace ptxbuilder::hopper {

// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
inline constexpr int warp_threads = 32;
inline constexpr int cta_threads = 1024;    // greatest number of threads in a CTA
inline constexpr int sm_registers = 65536;  // number of 32-bit registers
inline constexpr int sm_threads = 2048, sm_ctas = 32;
inline constexpr int sm_shared_bytes = 233472;
// The greatest number of registers that code can name; setmaxnreg counts one more register.
inline constexpr int thread_registers = 255;
// The maximum number of bytes in a CTA. A launch must explicitly request more than 49152.
inline constexpr int shared_bytes = 232448;
inline constexpr int reserved_shared_bytes = 1024;  // bytes reserved in each CTA, before the kernel's memory
inline constexpr int local_bytes = 512 << 10;       // maximum number of bytes in a thread
inline constexpr int named_barriers = 16;           // number of barriers in a CTA
inline constexpr int64_t grid_x = 0x7fffffff, grid_yz = 65535;  // maximum along x; along y or z

// The greatest cluster size that every GPU supports, and the greatest cluster size that a kernel can request
// if the GPU has room for the CTAs (CUDA C++ Programming Guide, "Thread Block Clusters").
inline constexpr int portable_cluster = 8, largest_cluster = 16;

// Source: NVIDIA H100 Tensor Core GPU Architecture, for the H100 SXM5.
inline constexpr int multiprocessors = 132;
// Returns the number of clusters of `ctas` CTAs, 1 to 16, that run at once on an H100 SXM5 if each CTA
// occupies one multiprocessor. All CTAs of a cluster run in one GPC. The numbers are results of
// cuOccupancyMaxActiveClusters.
constexpr int clusters_at_once(int ctas) {
  constexpr int kMeasured[] = {multiprocessors, 66, 39, 30, 22, 17, 15, 15, 9, 8, 7, 7, 7, 7, 7, 7};
  return kMeasured[ctas - 1];
}

// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
inline constexpr int warpgroup_threads = 128;
inline constexpr int wgmma_rows = 64;  // rows of D, or M, in every wgmma

// Source: PTX ISA, setmaxnreg.
inline constexpr int least_role_registers = 24, most_role_registers = 256, role_register_step = 8;

// Source: PTX ISA, "Kernel Function Parameters".
inline constexpr int parameter_bytes = 32764;  // greatest size of all parameters

// Sources: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, cp.async.bulk.tensor.
inline constexpr int tensor_rank = 5;       // maximum number of dimensions of a tensor map
inline constexpr int box_extent = 256;      // maximum number of elements along each dimension
inline constexpr int element_stride = 8;    // greatest stride of elements
inline constexpr int im2col_pixels = 1024;  // maximum number of pixels of a copy
inline constexpr int bulk_unit = 16;  // sizes, strides and global addresses are multiples of this, in bytes
inline constexpr int tensor_shared_alignment = 128;  // alignment of a box in shared memory, in bytes

}  // namespace ptxbuilder::hopper
