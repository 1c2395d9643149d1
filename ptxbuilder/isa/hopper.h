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
inline constexpr int thread_registers = 255;  // greatest number of registers that code can name; setmaxnreg
                                              // counts one more
inline constexpr int shared_bytes = 232448;   // most bytes in a CTA; more than 49152 must be requested by the
                                              // launch
inline constexpr int reserved_shared_bytes = 1024;  // bytes reserved in each CTA, before the CTA's own memory
inline constexpr int local_bytes = 512 << 10;       // most bytes in a thread
inline constexpr int named_barriers = 16;           // number of barriers in a CTA
inline constexpr int64_t grid_x = 0x7fffffff, grid_yz = 65535;  // most CTAs along x, and along y or z

// The greatest cluster size that every GPU supports, and the greatest that a kernel can request if the GPU
// can place the CTAs (CUDA C++ Programming Guide, "Thread Block Clusters").
inline constexpr int portable_cluster = 8, largest_cluster = 16;

// Source: NVIDIA H100 Tensor Core GPU Architecture, for the H100 SXM5.
inline constexpr int multiprocessors = 132;
// Returns the number of clusters of `ctas` CTAs, 1 to 16, that run at once on an H100 SXM5 if each CTA has a
// multiprocessor to itself. All CTAs of a cluster run in one GPC. The numbers are results of
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
inline constexpr int tensor_rank = 5;       // most dimensions of a tensor map
inline constexpr int box_extent = 256;      // most elements along each dimension
inline constexpr int element_stride = 8;    // greatest stride of elements
inline constexpr int im2col_pixels = 1024;  // most pixels of a copy
inline constexpr int bulk_unit = 16;  // sizes, strides and global addresses are multiples of this, in bytes
inline constexpr int tensor_shared_alignment = 128;  // bytes, for a box in shared memory

}  // namespace ptxbuilder::hopper
