// RMS norm of a matrix, one row for each block: y[r, i] = x[r, i] * w[i] / sqrt(mean of x[r, :]^2 + eps).
//
// The copy engine copies the row to shared memory, and an mbarrier counts its bytes. The squares are added up by
// shuffles in each warp, and then in shared memory.
#shared = #gpu.address_space<workgroup>
!mbarrier = !nvgpu.mbarrier.group<memorySpace = #shared>

gpu.module @norms {
  gpu.func @rms_norm(%x: memref<16x512xf32>, %w: memref<512xf32>, %y: memref<16x512xf32>, %eps: f32)
      workgroup(%row: memref<512xf32, #shared> {llvm.align = 16 : i64}, %sums: memref<4xf32, #shared>)
      kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %row_bytes = arith.constant 2048 : index
    %ticks = arith.constant 10000000 : index
    %first_phase = arith.constant false
    %zero = arith.constant 0.0 : f32
    %one_512th = arith.constant 0.001953125 : f32

    %r = gpu.block_id x
    %t = gpu.thread_id x
    %is_first = arith.cmpi eq, %t, %c0 : index

    %loaded = nvgpu.mbarrier.create -> !mbarrier
    nvgpu.mbarrier.init %loaded[%c0], %c1, predicate = %is_first : !mbarrier
    nvvm.fence.mbarrier.init
    gpu.barrier
    scf.if %is_first {
      nvgpu.mbarrier.arrive.expect_tx %loaded[%c0], %row_bytes : !mbarrier
      %x_base = memref.extract_aligned_pointer_as_index %x : memref<16x512xf32> -> index
      %offset = arith.muli %r, %row_bytes : index
      %x_row = arith.addi %x_base, %offset : index
      %x_number = arith.index_cast %x_row : index to i64
      %from = llvm.inttoptr %x_number : i64 to !llvm.ptr<1>
      %row_base = memref.extract_aligned_pointer_as_index %row : memref<512xf32, #shared> -> index
      %row_number = arith.index_cast %row_base : index to i64
      %in_cta = llvm.inttoptr %row_number : i64 to !llvm.ptr<3>
      %to = llvm.addrspacecast %in_cta : !llvm.ptr<3> to !llvm.ptr<7>
      %barrier_number = nvgpu.mbarrier.get %loaded[%c0] : !mbarrier -> i64
      %barrier = llvm.inttoptr %barrier_number : i64 to !llvm.ptr<3>
      %bytes = arith.index_cast %row_bytes : index to i32
      nvvm.cp.async.bulk.shared.cluster.global %to, %from, %barrier, %bytes : !llvm.ptr<7>, !llvm.ptr<1>
    }
    nvgpu.mbarrier.try_wait.parity %loaded[%c0], %first_phase, %ticks : !mbarrier

    %of_thread = scf.for %i = %t to %c512 step %c128 iter_args(%sum = %zero) -> f32 {
      %v = memref.load %row[%i] : memref<512xf32, #shared>
      %square = arith.mulf %v, %v : f32
      %next = arith.addf %sum, %square : f32
      scf.yield %next : f32
    }
    %all_lanes = arith.constant -1 : i32
    %last_lane = arith.constant 31 : i32
    %c1_i32 = arith.constant 1 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c8_i32 = arith.constant 8 : i32
    %c16_i32 = arith.constant 16 : i32
    %by_16 = nvvm.shfl.sync bfly %all_lanes, %of_thread, %c16_i32, %last_lane : f32 -> f32
    %of_2 = arith.addf %of_thread, %by_16 : f32
    %by_8 = nvvm.shfl.sync bfly %all_lanes, %of_2, %c8_i32, %last_lane : f32 -> f32
    %of_4 = arith.addf %of_2, %by_8 : f32
    %by_4 = nvvm.shfl.sync bfly %all_lanes, %of_4, %c4_i32, %last_lane : f32 -> f32
    %of_8 = arith.addf %of_4, %by_4 : f32
    %by_2 = nvvm.shfl.sync bfly %all_lanes, %of_8, %c2_i32, %last_lane : f32 -> f32
    %of_16 = arith.addf %of_8, %by_2 : f32
    %by_1 = nvvm.shfl.sync bfly %all_lanes, %of_16, %c1_i32, %last_lane : f32 -> f32
    %of_warp = arith.addf %of_16, %by_1 : f32
    %warp = arith.divui %t, %c32 : index
    memref.store %of_warp, %sums[%warp] : memref<4xf32, #shared>
    gpu.barrier
    %of_row = scf.for %i = %c0 to %c4 step %c1 iter_args(%sum = %zero) -> f32 {
      %v = memref.load %sums[%i] : memref<4xf32, #shared>
      %next = arith.addf %sum, %v : f32
      scf.yield %next : f32
    }

    %mean = arith.mulf %of_row, %one_512th : f32
    %shifted = arith.addf %mean, %eps : f32
    %factor = nvvm.inline_ptx "rsqrt.approx.f32 {$w0}, {$r0};" ro (%shifted : f32) -> f32
    scf.for %i = %t to %c512 step %c128 {
      %v = memref.load %row[%i] : memref<512xf32, #shared>
      %weight = memref.load %w[%i] : memref<512xf32>
      %scaled = arith.mulf %v, %factor : f32
      %result = arith.mulf %scaled, %weight : f32
      memref.store %result, %y[%r, %i] : memref<16x512xf32>
    }
    gpu.return
  }
}
