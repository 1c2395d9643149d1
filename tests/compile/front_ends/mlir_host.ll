; As mlir-translate writes a module of host code, whose gpu.module gpu-module-to-binary left in a constant, as bitcode.
; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"

%0 = type { ptr addrspace(1), ptr addrspace(1), i32 }

@kernels_binary = internal constant [2356 x i8] c"BC\C0\DE5\14\00\00\05\00\00\00b\0C0$JY\BE\A6m\FB\B5\CF\0BQ\80L\01\00\00\00!\0C\00\00\05\02\00\00\0B\02!\00\02\00\00\00\22\00\00\00\07\81#\91A\C8\04I\06\1029\92\01\84\0C%\05\08\19\1E\04\8Bb\80\10E\02B\92\0BB\84\102\148\08\18K\0A2B\88H\B0d!C\86\88\04G\1C2B$q\C8\08\11$)@\86\8C\10K\012d\84\08\92\1C #D\88\E5\00\19!B\04\19*(*\90Q\\ #\B9@\86\0C\19\C3\07\CB\15\19B\8C\8C$\07\192b,9\C8\90\11#\C8\12\88\0E\1D:dDG\C8\10\22CF\02\19\1A\00\89 \00\00\0E\00\00\00\22f\04\10\B2B\82\09\11RB\82\09\91q\C2PH\0A\09&D\C6\05BB&\08\16\1A\01\98,\08\E6\08\C0\A0\10!2%\98\81\809\82`\0A`\06`\8E\00\14\00Q\18\00\00\22\00\00\00\1B\CC \F8\FF\FF\FF\FF\010\05\C0\0F\008\00\FE\00\90\80>\08la\04A\10\04A\10\04A\81p\07{\B0\87vp\83v\08\07|p\07zH\07r\00\E6@\0E\D8 \0E\D8 \0E\80\0D\87\10\00t\10\98\03\B0\E1\18\04\A0\0A\CC\01\D80\11\FF\FF\FF\FF?\00\A6\00\9C\02\E0\07\C0\1F\00\12P\07@\1F\04\B6\00\82 \08\82 \08\82\A0\B0!)\00\80\14\0E^\00\03\00\04\85\0D\87\01\1C\BC\00\06\00(\00\00I\18\00\00\03\00\00\00\13\86@\18&\08D1!0\00\00\13&w\B0\07x\A0\07|\B0\03:h\03w\B0\87t \87t\08\876\18\87z \87p\D8\B0\07\E5\D0\06\F0`\07z0\07r\A0\07s \07m\90\0Ev@\07z`\07t\D0\06\E9\10\07r\80\07z\10\07r\80\07m\90\0ErP\07v\A0\07rP\07v\D0\06\F6\10\07v\A0\07q`\07m`\0Fs \07z0\07r\D0\06\EE\10\07v\A0\07s \07z`\07t\A0\11\C2\90QY\BEf\87\00\0B!L\A63P\0B1\A4\02\02\E2\14\00 \00\00\00\10\00\00\00\00\00\08\80!U\D0\15@\00\08\00\00\00\00\00\00\00\00\00\01 \B1A\A0h\82\00\00@\16\08\00\00\00\06\00\00\002\1E\98\0C\19\11L\90\8C\09&G\C6\04C\9A\22(\83\11\00\00\00\00\B1\18\00\00\E4\00\00\003\08\80\1C\C4\E1\1Cf\14\01=\88C8\84\C3\8CB\80\07yx\07s\98q\0C\E6\00\0F\ED\10\0E\F4\80\0E3\0CB\1E\C2\C1\1D\CE\A1\1Cf0\05=\88C8\84\83\1B\CC\03=\C8C=\8C\03=\CCx\8Ctp\07{\08\07yH\87pp\07zp\03vx\87p \87\19\CC\11\0E\EC\90\0E\E10\0Fn0\0F\E3\F0\0E\F0P\0E3\10\C4\1D\DE!\1C\D8!\1D\C2a\1Ef0\89;\BC\83;\D0C9\B4\03<\BC\83<\84\03;\CC\F0\14v`\07{h\077h\87rh\077\80\87p\90\87p`\07v(\07v\F8\05vx\87w\80\87_\08\87q\18\87r\98\87y\98\81,\EE\F0\0E\EE\E0\0E\F5\C0\0E\EC0\03b\C8\A1\1C\E4\A1\1C\CC\A1\1C\E4\A1\1C\DCa\1C\CA!\1C\C4\81\1D\CAa\06\D6\90C9\C8C9\98C9\C8C9\B8\C38\94C8\88\03;\94\C3/\BC\83<\FC\82;\D4\03;\B0\C3\0C\C7i\87pX\87rp\83th\07x`\87t\18\87t\A0\87\19\CES\0F\EE\00\0F\F2P\0E\E4\90\0E\E3@\0F\E1 \0E\ECP\0E3 (\1D\DC\C1\1E\C2A\1E\D2!\1C\DC\81\1E\DC\E0\1C\E4\E1\1D\EA\01\1Ef\18Q8\B0C:\9C\83;\CCP$v`\07{h\077`\87wx\07x\98QL\F4\90\0F\F0P\0E3\1Ej\1E\CAa\1C\E8!\1D\DE\C1\1D~\01\1E\E4\A1\1C\CC!\1D\F0a\06T\85\838\CC\C3;\B0C=\D0C9\FC\C2<\E4C;\88\C3;\B0\C3\8C\C5\0A\87y\98\87w\18\87t\08\07z(\07r\98\81\\\E3\10\0E\EC\C0\0E\E5P\0E\F30#\C1\D2A\1E\E4\E1\17\D8\E1\1D\DE\01\1EfH\19;\B0\83=\B4\83\1B\84\C38\8CC9\CC\C3<\B8\C19\C8\C3;\D4\03<\CCH\B4q\08\07v`\07q\08\87qX\87\19\DB\C6\0E\EC`\0F\ED\E0\06\F0 \0F\E50\0F\E5 \0F\F6P\0En\10\0E\E30\0E\E50\0F\F3\E0\06\E9\E0\0E\E4P\0E\F80#\E2\ECa\1C\C2\81\1D\D8\E1\17\EC!\1D\E6!\1D\C4!\1D\D8!\1D\E8!\1Ff \9D;\BCC=\B8\039\94\839\CCX\BCpp\07wx\07z\08\07zH\87wp\87\19\CB\E7\0E\EF0\0F\E1\E0\0E\E9@\0F\E9\A0\0F\E50\C3\01\03s\A8\07w\18\87_\98\87pp\87t\A0\87t\D0\87r\98\81\84A9\E0\C38\B0C=\90C9\CC@\C4\A0\1D\CA\A1\1D\E0A\1E\DE\C1\1Cf$c0\0E\E1\C0\0E\EC0\0F\E9@\0F\E50C!\83u\18\07sH\87_\A0\87|\80\87r\98\B1\94\01<\8C\C3<\94\C38\D0C:\BC\83;\CC\C3\8C\C5\0CH!\15Ba\1E\E6!\1D\CE\C1\1DR\81\14fLg0\0E\EF \0F\EF\E0\06\EFP\0F\F40\0F\E9@\0E\E5\E0\06\E6 \0F\E1\D0\0E\E50\A3@\83vh\07y\08\87\19R\1A\B8\C3;\84\03;\A4C8\CC\83\1B\84\039\90\83<\CC\03<\84\C38\94\C3\0CF\0D\C6!\1C\D8\81\1D\CA\A1\1C~\81\1E\F2\01\1E\CAa\C6\B1\06\EE\F0\0E\E6 \0F\E5P\0E3\126\18\87p\80\07z\A8\07y(\87y\98\C1\B4A8\B0\03;\BC\C38\FC\02=\BC\C3:\94\83;\CCh\DC \1D\DA\01\1E\D8!\1D\C6!\1D\E8\C1\0D\E4\A1\1C\CCa\C6\F1\06\F3 \0F\E3\C0\0E\EF0\0E\00\00\00y \00\00/\00\00\00\92\1EH C\88\0C\19\09dd\C8\C9 \81\8C\042FFF\13\81B\A0\90\F1\C4\C8\089B\86\8C\A2@\88\02\00\00\12\1B\00\00Debug Info Versionclang version 3.8.0 (tags/RELEASE_380/final)\00\00#\08\830\820\0C#\08\031\C30\04\C4\0C\810\830\142\12\98\A0\8C\D8\D8\EC\DA\\\DA\DE\C8\EA\D8\CA\\\CC\D8\C2\CE\E6F\09\8AT\D8\D8\EC\DA\\\D2\C8\CA\DC\E8F\09\8Ct\DC\EC\EC\DA\D2\E4\\\EC\CA\E4\E6\D2\DE\DCF\09\0E\00\00\A9\18\00\007\00\00\00\0B\0Ar(\87w\80\07zXp\98C=\B8\C38\B0C9\D0\C3\82\E6\1C\C6\A1\0D\E8A\1E\C2\C1\1D\E6!\1D\E8!\1D\DE\C1\1D\164\E3`\0E\E7P\0F\E1 \0F\E4@\0F\E1 \0F\E7P\0E\F4\B0\80\81\07y(\87p`\07vx\87q\08\07z(\07rXp\9C\C38\B4\01;\A4\83=\94\C3\02k\1C\D8!\1C\DC\E1\1C\DC \1C\E4a\1C\DC \1C\E8\81\1E\C2a\1C\D0\A1\1C\C8a\1C\C2\81\1D\D8a\C1\01\0F\F4 \0F\E1P\0F\F4\80\0E\0B\88u\18\07sH\87\05\CF8\BC\83;\D8C9\C8\C39\94\83;\8CC9\8C\03=\C8\03;,(\C2\81\1D\D2\E1\1C\DCa\C1D\0E\E5\10\0E\E3@\0F\E9`\0F\E1@\0F\E9\F0\0E\EE\D0\06\F3\90\0F\ED \0E\EF\C0\0E\00\00\00\00\D1\10\00\00\06\00\00\00\07\CC<\A4\83;\9C\03;\94\03=\A0\83<\94C8\90\C3\01\00\00\00a(\00\00\11\00\00\00#\08\86\B0@\00\00\00\03\00\00\00\94c\04 \08\82 \18\00\00\00\00C\0C\88!\04\C1\A0@d0\A0/\10\82%d\05\ACA# \22\05$\88H\01\11H\90\03\05\88\A0\C0\80R\04\C3\09\0C\00\00\00q \00\00\03\00\00\002\0E\10\22\84\00\F6\03\00\00\00\00\00\00\00\00e\0C\00\00%\00\00\00\12\03\94(\01\00\00\00\03\00\00\00\1E\00\00\00\06\00\00\00L\00\00\00\01\00\00\00X\00\00\00\00\00\00\00X\00\00\00\02\00\00\00\88\00\00\00\00\00\00\00$\00\00\00\13\00\00\007\00\00\00\11\00\00\00\01\00\00\00\00\00\00\00\88\00\00\00\00\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01\00\00\00\FF\FF\FF\FF\00$\00\00\01\00\00\00\1D\00\00\00\01\00\00\00\1D\00\00\00\FF\FF\FF\FF\08,\00\00\00\00\00\00]\0C\00\00\15\00\00\00\12\03\94\A8\00\00\00\00kllvm.nvvm.read.ptx.sreg.tid.x22.1.8nvptx64-nvidia-cudaLLVMDialectModule\00\00\00\00", align 8
@kernels_module = internal global ptr null
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 123, ptr @kernels_load, ptr null }]
@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 123, ptr @kernels_unload, ptr null }]
@kernels_k_name = private unnamed_addr constant [2 x i8] c"k\00", align 1

define void @main(ptr addrspace(1) %0, ptr addrspace(1) %1, i32 %2) {
  %4 = alloca %0, align 8
  %5 = alloca ptr, i64 3, align 8
  %6 = getelementptr inbounds nuw %0, ptr %4, i32 0, i32 0
  store ptr addrspace(1) %0, ptr %6, align 8
  %7 = getelementptr ptr, ptr %5, i32 0
  store ptr %6, ptr %7, align 8
  %8 = getelementptr inbounds nuw %0, ptr %4, i32 0, i32 1
  store ptr addrspace(1) %1, ptr %8, align 8
  %9 = getelementptr ptr, ptr %5, i32 1
  store ptr %8, ptr %9, align 8
  %10 = getelementptr inbounds nuw %0, ptr %4, i32 0, i32 2
  store i32 %2, ptr %10, align 4
  %11 = getelementptr ptr, ptr %5, i32 2
  store ptr %10, ptr %11, align 8
  %12 = load ptr, ptr @kernels_module, align 8
  %13 = call ptr @mgpuModuleGetFunction(ptr %12, ptr @kernels_k_name)
  %14 = call ptr @mgpuStreamCreate()
  call void @mgpuLaunchKernel(ptr %13, i64 1, i64 1, i64 1, i64 32, i64 1, i64 1, i32 0, ptr %14, ptr %5, ptr null, i64 3)
  call void @mgpuStreamSynchronize(ptr %14)
  call void @mgpuStreamDestroy(ptr %14)
  ret void
}

define internal void @kernels_load() section ".text.startup" {
entry:
  %0 = call ptr @mgpuModuleLoad(ptr @kernels_binary, i64 2356)
  store ptr %0, ptr @kernels_module, align 8
  ret void
}

declare ptr @mgpuModuleLoad(ptr, i64)

define internal void @kernels_unload() section ".text.startup" {
entry:
  %0 = load ptr, ptr @kernels_module, align 8
  call void @mgpuModuleUnload(ptr %0)
  ret void
}

declare void @mgpuModuleUnload(ptr)

declare ptr @mgpuModuleGetFunction(ptr, ptr)

declare ptr @mgpuStreamCreate()

declare void @mgpuLaunchKernel(ptr, i64, i64, i64, i64, i64, i64, i32, ptr, ptr, ptr, i64)

declare void @mgpuStreamSynchronize(ptr)

declare void @mgpuStreamDestroy(ptr)

!llvm.module.flags = !{!0}

!0 = !{i32 2, !"Debug Info Version", i32 3}
