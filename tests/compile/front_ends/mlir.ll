; As mlir-translate writes a gpu.module behind MLIR's default pipeline to NVVM: memrefs as their parts, no layout, no triple.
; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"

define ptx_kernel void @k(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4, ptr %5, ptr %6, i64 %7, i64 %8, i64 %9, i32 %10) #0 {
  %12 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } poison, ptr %0, 0
  %13 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %12, ptr %1, 1
  %14 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %13, i64 %2, 2
  %15 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %14, i64 %3, 3, 0
  %16 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %15, i64 %4, 4, 0
  %17 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } poison, ptr %5, 0
  %18 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %17, ptr %6, 1
  %19 = insertvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %18, i64 %7, 2
  br label %20

20:                                               ; preds = %11
  %21 = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %22 = sext i32 %21 to i64
  %23 = icmp slt i32 %21, %10
  br i1 %23, label %24, label %35

24:                                               ; preds = %20
  %25 = extractvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %19, 1
  %26 = getelementptr inbounds nuw float, ptr %25, i64 %22
  %27 = load float, ptr %26, align 4
  %28 = fmul float %27, 2.000000e+00
  %29 = uitofp i64 %22 to float
  %30 = fadd float %28, %29
  %31 = extractvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %16, 1
  %32 = extractvalue { ptr, ptr, i64, [1 x i64], [1 x i64] } %16, 4, 0
  %33 = mul i64 %22, %32
  %34 = getelementptr float, ptr %31, i64 %33
  store float %30, ptr %34, align 4
  br label %35

35:                                               ; preds = %24, %20
  ret void
}

declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1

attributes #0 = { "nvvm.reqntid"="32,1,1" }
attributes #1 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }

!llvm.module.flags = !{!0}
!0 = !{i32 2, !"Debug Info Version", i32 3}
