; As clang 14 writes it: pointers say what they point to.
source_filename = "k.c"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

%struct.pair = type { float*, i32, { i8*, [2 x float (float, %struct.pair*)*] } }

@two = internal addrspace(4) constant float 2.000000e+00, align 4
@scale_of = internal global [1 x float (float, %struct.pair*)*] zeroinitializer, align 8
@text = private unnamed_addr constant [9 x i8] c"i8* %p *\00", align 1  ; i32* in a comment

define internal float @scaled(float %x, %struct.pair* nocapture readonly %p) #1 {
  %1 = getelementptr inbounds %struct.pair, %struct.pair* %p, i64 0, i32 1
  %2 = load i32, i32* %1, align 8, !tbaa !3
  %3 = sitofp i32 %2 to float
  %4 = load float, float* addrspacecast (float addrspace(4)* @two to float*), align 4
  %5 = fmul float %x, %4
  %6 = fadd float %5, %3
  ret float %6
}

define void @k(float addrspace(1)* noalias nocapture %out, float* nocapture readonly %in, i32 %n) #0 {
entry:
  %pair = alloca %struct.pair, align 8
  %raw = bitcast %struct.pair* %pair to i8*
  call void @llvm.lifetime.start.p0i8(i64 32, i8* nonnull %raw) #2
  call void @llvm.memset.p0i8.i64(i8* nonnull align 8 %raw, i8 0, i64 32, i1 false)
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !4
  %inside = icmp slt i32 %tid, %n
  br i1 %inside, label %then, label %end
then:
  %number = getelementptr inbounds %struct.pair, %struct.pair* %pair, i64 0, i32 1
  store i32 %tid, i32* %number, align 8
  %at = sext i32 %tid to i64
  %from = getelementptr inbounds float, float* %in, i64 %at
  %x = load float, float* %from, align 4
  %slot = alloca float (float, %struct.pair*)*, align 8
  store float (float, %struct.pair*)* null, float (float, %struct.pair*)** %slot, align 8
  %y = call float @scaled(float %x, %struct.pair* nonnull %pair)
  %to = getelementptr inbounds float, float addrspace(1)* %out, i64 %at
  store float %y, float addrspace(1)* %to, align 4
  br label %end
end:
  call void @llvm.lifetime.end.p0i8(i64 32, i8* nonnull %raw) #2
  ret void
}

declare void @llvm.lifetime.start.p0i8(i64 immarg, i8* nocapture)
declare void @llvm.lifetime.end.p0i8(i64 immarg, i8* nocapture)
declare void @llvm.memset.p0i8.i64(i8* nocapture writeonly, i8, i64, i1 immarg)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

attributes #0 = { nounwind }
attributes #1 = { noinline nounwind }
attributes #2 = { nounwind }

!nvvm.annotations = !{!0, !1}
!0 = !{void (float addrspace(1)*, float*, i32)* @k, !"kernel", i32 1}
!1 = !{void (float addrspace(1)*, float*, i32)* @k, !"maxntidx", i32 32}
!3 = !{!5, !5, i64 0}
!4 = !{i32 0, i32 1024}
!5 = !{!"int", !6, i64 0}
!6 = !{!"Simple C/C++ TBAA"}
