; As Numba writes NVVM IR: its layout, names as mangled from Python, arrays as lists of arguments, annotations.
; ModuleID = "numba.cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@"_ZN08NumbaEnv8__main__5k_$241B1v1E" = common global i8* null

declare i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()

define linkonce_odr i32 @"_ZN8__main__5k_241B1v1E"(i8** noalias nocapture %".ret", float* %"arg.out.4", i64 %"arg.out.5.0", float* %"arg.in.4", i64 %"arg.in.5.0", i32 %"arg.n")
{
entry:
  %".9" = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %".10" = sext i32 %".9" to i64
  %".11" = icmp slt i32 %".9", %"arg.n"
  br i1 %".11", label %"B14", label %"B40"
B14:
  %".13" = icmp slt i64 %".10", 0
  %".14" = select i1 %".13", i64 %"arg.in.5.0", i64 0
  %".15" = add i64 %".10", %".14"
  %".16" = getelementptr float, float* %"arg.in.4", i64 %".15"
  %".17" = load float, float* %".16", align 4
  %".18" = fpext float %".17" to double
  %".19" = fmul double %".18", 0x4000000000000000
  %".20" = sitofp i64 %".10" to double
  %".21" = fadd double %".19", %".20"
  %".22" = fptrunc double %".21" to float
  %".23" = getelementptr float, float* %"arg.out.4", i64 %".15"
  store float %".22", float* %".23", align 4
  br label %"B40"
B40:
  store i8* null, i8** %".ret"
  ret i32 0
}

define void @"k"(float* %".1", i64 %".2", float* %".3", i64 %".4", i32 %".5")
{
.7:
  %".8" = alloca i8*
  store i8* null, i8** %".8"
  %".10" = call i32 @"_ZN8__main__5k_241B1v1E"(i8** %".8", float* %".1", i64 %".2", float* %".3", i64 %".4", i32 %".5")
  ret void
}

!nvvmir.version = !{!0}
!nvvm.annotations = !{!1, !2}
!0 = !{i32 2, i32 0}
!1 = !{void (float*, i64, float*, i64, i32)* @"k", !"kernel", i32 1}
!2 = !{void (float*, i64, float*, i64, i32)* @"k", !"maxntidx", i32 32}
