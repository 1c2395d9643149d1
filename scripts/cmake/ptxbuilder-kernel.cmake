# ptxbuilder_add_kernel(NAME [FILE...]): the executable NAME of the kernel families that the files register
# (kernels/command/family.h). It lists, runs and verifies, times, emits and proves them: see NAME --help.
function(ptxbuilder_add_kernel name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ptxbuilder::kernel_main)
endfunction()
