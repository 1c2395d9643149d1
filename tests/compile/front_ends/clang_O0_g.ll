; ModuleID = 'k.cpp'
source_filename = "k.cpp"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

%struct.Pair = type { float, float }

$_ZNK4Pair3sumEv = comdat any

; Function Attrs: convergent mustprogress noinline optnone
define dso_local ptx_kernel void @k(ptr noundef %0, ptr noundef %1, i32 noundef %2) #0 !dbg !9 {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = alloca i32, align 4
  %7 = alloca i32, align 4
  %8 = alloca %struct.Pair, align 4
  store ptr %0, ptr %4, align 8
    #dbg_declare(ptr %4, !17, !DIExpression(), !18)
  store ptr %1, ptr %5, align 8
    #dbg_declare(ptr %5, !19, !DIExpression(), !20)
  store i32 %2, ptr %6, align 4
    #dbg_declare(ptr %6, !21, !DIExpression(), !22)
    #dbg_declare(ptr %7, !23, !DIExpression(), !24)
  %9 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !25
  store i32 %9, ptr %7, align 4, !dbg !24
  %10 = load i32, ptr %7, align 4, !dbg !26
  %11 = load i32, ptr %6, align 4, !dbg !28
  %12 = icmp slt i32 %10, %11, !dbg !29
  br i1 %12, label %13, label %29, !dbg !29

13:                                               ; preds = %3
    #dbg_declare(ptr %8, !30, !DIExpression(), !41)
  %14 = getelementptr inbounds nuw %struct.Pair, ptr %8, i32 0, i32 0, !dbg !42
  %15 = load ptr, ptr %5, align 8, !dbg !43
  %16 = load i32, ptr %7, align 4, !dbg !44
  %17 = sext i32 %16 to i64, !dbg !43
  %18 = getelementptr inbounds float, ptr %15, i64 %17, !dbg !43
  %19 = load float, ptr %18, align 4, !dbg !43
  %20 = fmul float 2.000000e+00, %19, !dbg !45
  store float %20, ptr %14, align 4, !dbg !42
  %21 = getelementptr inbounds nuw %struct.Pair, ptr %8, i32 0, i32 1, !dbg !42
  %22 = load i32, ptr %7, align 4, !dbg !46
  %23 = sitofp i32 %22 to float, !dbg !46
  store float %23, ptr %21, align 4, !dbg !42
  %24 = call noundef float @_ZNK4Pair3sumEv(ptr noundef nonnull align 4 dereferenceable(8) %8) #3, !dbg !47
  %25 = load ptr, ptr %4, align 8, !dbg !48
  %26 = load i32, ptr %7, align 4, !dbg !49
  %27 = sext i32 %26 to i64, !dbg !48
  %28 = getelementptr inbounds float, ptr %25, i64 %27, !dbg !48
  store float %24, ptr %28, align 4, !dbg !50
  br label %29, !dbg !51

29:                                               ; preds = %13, %3
  ret void, !dbg !52
}

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare noundef range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1

; Function Attrs: convergent mustprogress noinline nounwind optnone
define linkonce_odr dso_local noundef float @_ZNK4Pair3sumEv(ptr noundef nonnull align 4 dereferenceable(8) %0) #2 comdat align 2 !dbg !53 {
  %2 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8
    #dbg_declare(ptr %2, !54, !DIExpression(), !56)
  %3 = load ptr, ptr %2, align 8
  %4 = getelementptr inbounds nuw %struct.Pair, ptr %3, i32 0, i32 0, !dbg !57
  %5 = load float, ptr %4, align 4, !dbg !57
  %6 = getelementptr inbounds nuw %struct.Pair, ptr %3, i32 0, i32 1, !dbg !58
  %7 = load float, ptr %6, align 4, !dbg !58
  %8 = fadd float %5, %7, !dbg !59
  ret float %8, !dbg !60
}

attributes #0 = { convergent mustprogress noinline optnone "frame-pointer"="all" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-features"="+ptx88" }
attributes #1 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #2 = { convergent mustprogress noinline nounwind optnone "frame-pointer"="all" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-features"="+ptx88" }
attributes #3 = { convergent }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!4, !5, !6, !7}
!llvm.ident = !{!8}

!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !1, producer: "clang version 22.1.8", isOptimized: false, runtimeVersion: 0, emissionKind: FullDebug, retainedTypes: !2, splitDebugInlining: false, nameTableKind: None)
!1 = !DIFile(filename: "k.cpp", directory: "/src")
!2 = !{!3}
!3 = !DIBasicType(name: "float", size: 32, encoding: DW_ATE_float)
!4 = !{i32 7, !"Dwarf Version", i32 2}
!5 = !{i32 2, !"Debug Info Version", i32 3}
!6 = !{i32 1, !"wchar_size", i32 4}
!7 = !{i32 7, !"frame-pointer", i32 2}
!8 = !{!"clang version 22.1.8"}
!9 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 2, type: !10, scopeLine: 2, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !0, retainedNodes: !16)
!10 = !DISubroutineType(cc: DW_CC_LLVM_DeviceKernel, types: !11)
!11 = !{null, !12, !13, !15}
!12 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !3, size: 64)
!13 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !14, size: 64)
!14 = !DIDerivedType(tag: DW_TAG_const_type, baseType: !3)
!15 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!16 = !{}
!17 = !DILocalVariable(name: "out", arg: 1, scope: !9, file: !1, line: 2, type: !12)
!18 = !DILocation(line: 2, column: 56, scope: !9)
!19 = !DILocalVariable(name: "in", arg: 2, scope: !9, file: !1, line: 2, type: !13)
!20 = !DILocation(line: 2, column: 74, scope: !9)
!21 = !DILocalVariable(name: "n", arg: 3, scope: !9, file: !1, line: 2, type: !15)
!22 = !DILocation(line: 2, column: 82, scope: !9)
!23 = !DILocalVariable(name: "i", scope: !9, file: !1, line: 3, type: !15)
!24 = !DILocation(line: 3, column: 7, scope: !9)
!25 = !DILocation(line: 3, column: 11, scope: !9)
!26 = !DILocation(line: 4, column: 7, scope: !27)
!27 = distinct !DILexicalBlock(scope: !9, file: !1, line: 4, column: 7)
!28 = !DILocation(line: 4, column: 11, scope: !27)
!29 = !DILocation(line: 4, column: 9, scope: !27)
!30 = !DILocalVariable(name: "p", scope: !31, file: !1, line: 4, type: !32)
!31 = distinct !DILexicalBlock(scope: !27, file: !1, line: 4, column: 14)
!32 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "Pair", file: !1, line: 1, size: 64, flags: DIFlagTypePassByValue, elements: !33, identifier: "_ZTS4Pair")
!33 = !{!34, !35, !36}
!34 = !DIDerivedType(tag: DW_TAG_member, name: "a", scope: !32, file: !1, line: 1, baseType: !3, size: 32)
!35 = !DIDerivedType(tag: DW_TAG_member, name: "b", scope: !32, file: !1, line: 1, baseType: !3, size: 32, offset: 32)
!36 = !DISubprogram(name: "sum", linkageName: "_ZNK4Pair3sumEv", scope: !32, file: !1, line: 1, type: !37, scopeLine: 1, flags: DIFlagPrototyped, spFlags: 0)
!37 = !DISubroutineType(types: !38)
!38 = !{!3, !39}
!39 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !40, size: 64, flags: DIFlagArtificial | DIFlagObjectPointer)
!40 = !DIDerivedType(tag: DW_TAG_const_type, baseType: !32)
!41 = !DILocation(line: 4, column: 21, scope: !31)
!42 = !DILocation(line: 4, column: 25, scope: !31)
!43 = !DILocation(line: 4, column: 30, scope: !31)
!44 = !DILocation(line: 4, column: 33, scope: !31)
!45 = !DILocation(line: 4, column: 28, scope: !31)
!46 = !DILocation(line: 4, column: 43, scope: !31)
!47 = !DILocation(line: 4, column: 59, scope: !31)
!48 = !DILocation(line: 4, column: 48, scope: !31)
!49 = !DILocation(line: 4, column: 52, scope: !31)
!50 = !DILocation(line: 4, column: 55, scope: !31)
!51 = !DILocation(line: 4, column: 66, scope: !31)
!52 = !DILocation(line: 5, column: 1, scope: !9)
!53 = distinct !DISubprogram(name: "sum", linkageName: "_ZNK4Pair3sumEv", scope: !32, file: !1, line: 1, type: !37, scopeLine: 1, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !0, declaration: !36, retainedNodes: !16)
!54 = !DILocalVariable(name: "this", arg: 1, scope: !53, type: !55, flags: DIFlagArtificial | DIFlagObjectPointer)
!55 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !40, size: 64)
!56 = !DILocation(line: 0, scope: !53)
!57 = !DILocation(line: 1, column: 54, scope: !53)
!58 = !DILocation(line: 1, column: 58, scope: !53)
!59 = !DILocation(line: 1, column: 56, scope: !53)
!60 = !DILocation(line: 1, column: 47, scope: !53)
