# Installs the project by component. The components are those of ptxbuilder-config.cmake.in, and two that need no compiler: `library`, with
# the shared library of `c`, and `command`, with the program of `tools`. The kernels' own executables are not installed.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ptxbuilder)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})

include(scripts/cmake/licenses.cmake)
configure_file(scripts/installed.md.in README.md @ONLY)  # the page to start from

# ptxbuilder_component(NAME TEXT LIBRARIES target... [HEADERS file...] [AFTER name] [LINK word...]) writes a pkg-config file from TEXT, the
# LIBRARIES in the order of linking, the component AFTER that it depends on, and LINK, further words for the linker.
function(ptxbuilder_component name text)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "AFTER" "LIBRARIES;HEADERS;LINK")
  set(pc_libs "")
  foreach(library ${arg_LIBRARIES})
    get_target_property(export_name ${library} EXPORT_NAME)
    if(NOT export_name)
      string(REPLACE ptxbuilder_ "" export_name ${library})
      set_target_properties(${library} PROPERTIES EXPORT_NAME ${export_name})
    endif()
    if(NOT TARGET ptxbuilder::${export_name})
      add_library(ptxbuilder::${export_name} ALIAS ${library})
    endif()
    get_target_property(type ${library} TYPE)
    if(type STREQUAL SHARED_LIBRARY)
      get_target_property(shared ${library} OUTPUT_NAME)
      string(APPEND pc_libs " -l${shared}")
    else()
      string(APPEND pc_libs " -l:lib${library}.a")  # libptxbuilder also exists as a shared library of this name
    endif()
  endforeach()
  install(TARGETS ${arg_LIBRARIES} EXPORT ptxbuilder-${name}
          ARCHIVE COMPONENT ${name} LIBRARY COMPONENT library NAMELINK_COMPONENT ${name})
  install(EXPORT ptxbuilder-${name} NAMESPACE ptxbuilder:: DESTINATION ${package_folder}
          FILE ptxbuilder-${name}-targets.cmake COMPONENT ${name})
  install(FILES ${PROJECT_BINARY_DIR}/ptxbuilder-config.cmake ${PROJECT_BINARY_DIR}/ptxbuilder-config-version.cmake
          ${PROJECT_SOURCE_DIR}/scripts/cmake/ptxbuilder-kernel.cmake DESTINATION ${package_folder} COMPONENT ${name})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_BINARY_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
          COMPONENT ${name})
  install(DIRECTORY ${licenses} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ${name})
  if(arg_HEADERS)
    install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
set(PRINTED \"${PTXBUILDER_PRINTED}\")
set(WORK \"${PROJECT_BINARY_DIR}/headers/${name}\")
set(ROOTS ${arg_HEADERS})
set(DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
include(\"${PROJECT_SOURCE_DIR}/scripts/cmake/headers.cmake\")" COMPONENT ${name})
  endif()

  set(pc_name ptxbuilder-${name})
  set(pc_description ${text})
  set(pc_requires "")
  if(arg_AFTER)
    set(pc_requires ptxbuilder-${arg_AFTER})
  endif()
  list(JOIN arg_LINK " " link)
  string(APPEND pc_libs " ${link}")
  string(STRIP "${pc_libs}" pc_libs)
  configure_file(${PROJECT_SOURCE_DIR}/scripts/cmake/ptxbuilder.pc.in ${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${name})
endfunction()

set_target_properties(ptxbuilder PROPERTIES EXPORT_NAME builder)
set_target_properties(ptxbuilder_matmul PROPERTIES EXPORT_NAME kernels)
ptxbuilder_component(runtime "Launches compiled kernels on NVIDIA Hopper"
  LIBRARIES ptxbuilder_runtime ptxbuilder_base HEADERS runtime/runtime.h LINK -pthread -l${CMAKE_DL_LIBS})
get_target_property(emulator_options ptxbuilder_emulator INTERFACE_LINK_OPTIONS)
string(REPLACE "LINKER:" "-Wl," emulator_options "${emulator_options}")
ptxbuilder_component(emulator "Runs NVIDIA's PTX on the CPU" AFTER runtime
  LIBRARIES ptxbuilder_emulator ptxbuilder_ptx HEADERS runtime/emulator/emulator.h LINK ${emulator_options})
ptxbuilder_component(builder "Writes and compiles NVIDIA Hopper kernels" AFTER emulator
  LIBRARIES ptxbuilder_load ptxbuilder ptxbuilder_proof ptxbuilder_plan ptxbuilder_layout ptxbuilder_assemble
  HEADERS ptxbuilder/ptxbuilder.h ptxbuilder/ir/instruction.h ptxbuilder/llvm.h runtime/compile/load.h
  LINK -L${LLVM_LIBRARY_DIR} -lLLVM-${LLVM_VERSION_MAJOR})
ptxbuilder_component(kernels "Matrix products on NVIDIA Hopper, and a command line for kernels" AFTER builder
  LIBRARIES ptxbuilder_kernel_main ptxbuilder_command ptxbuilder_simulate ptxbuilder_family ptxbuilder_command_line ptxbuilder_analysis
            ptxbuilder_attention_gradient ptxbuilder_attention ptxbuilder_matmul ptxbuilder_gemm ptxbuilder_rows ptxbuilder_call
  HEADERS kernels/gemm/matmul.h kernels/attention/attention.h
          kernels/attention_gradient/attention_gradient.h kernels/rows/rows.h kernels/family/family.h kernels/family/run.h)
ptxbuilder_component(c "NVIDIA Hopper kernels from C" LIBRARIES ptxbuilder_c)
install(FILES kernels/c/ptxb.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ptxbuilder COMPONENT c)
foreach(example "kernels kernels/scale.cpp" "runtime launch.cpp" "c product.c")
  separate_arguments(example)
  list(GET example 0 component)
  list(GET example 1 file)
  install(FILES tests/project/package/${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT ${component})
endforeach()
set(kernels_shown steps/gemm_multistage.cpp steps/gemm_warp_specialized.cpp steps/gemm_pipelined.cpp steps/attention_step.cpp
  steps/gemm_step.h steps/gemm_run.h gemm/reference.h)
list(TRANSFORM kernels_shown PREPEND kernels/)
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
set(FILES ${kernels_shown})
set(WORK \"${PROJECT_BINARY_DIR}/examples\")
set(DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/examples\")
include(\"${PROJECT_SOURCE_DIR}/scripts/cmake/examples.cmake\")" COMPONENT kernels)
install(FILES runtime/sidecar.md kernels/command/commands.md ${PROJECT_BINARY_DIR}/README.md LICENSE
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
install(FILES runtime/sidecar.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/html DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools OPTIONAL)  # scripts/docs builds it
install(DIRECTORY ${licenses} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
add_executable(ptxbuilder::ptxb ALIAS ptxb)
install(TARGETS ptxb ptxbuilder_emulated_driver ptxbuilder_recorder EXPORT ptxbuilder-tools
        RUNTIME COMPONENT command LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ptxbuilder COMPONENT command)
install(EXPORT ptxbuilder-tools NAMESPACE ptxbuilder:: DESTINATION ${package_folder} FILE ptxbuilder-tools-targets.cmake
        COMPONENT tools)

configure_package_config_file(scripts/cmake/ptxbuilder-config.cmake.in ptxbuilder-config.cmake
                              INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_DOCDIR)
write_basic_package_version_file(ptxbuilder-config-version.cmake COMPATIBILITY SameMinorVersion)

# scripts/package makes a .tar.gz of all components, and three .debs: one with the shared library, for running programs; one with the
# command; and one for building programs, with the components of find_package().
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR "the authors of ptxbuilder")
set(CPACK_PACKAGE_CONTACT "the authors of ptxbuilder")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPackComponent)
set(package_library libptxbuilder${abi_version})
set(package_tools ptxbuilder-tools)
set(package_dev libptxbuilder-dev)

# In addition to its files, Debian requires each package to contain the dependencies of the library, the trigger of ldconfig, a changelog,
# and the licence, whose text Debian already has.
set(debian ${PROJECT_BINARY_DIR}/debian)
file(WRITE ${debian}/shlibs "libptxbuilder ${abi_version} ${package_library} (>= ${PROJECT_VERSION})\n")
file(WRITE ${debian}/triggers "activate-noawait ldconfig\n")
string(TIMESTAMP year "%Y" UTC)
string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${debian}/changelog "ptxbuilder (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * Release ${PROJECT_VERSION}.\n
 -- ${CPACK_PACKAGE_CONTACT} <>  ${today}\n")
execute_process(COMMAND gzip -9nf ${debian}/changelog COMMAND_ERROR_IS_FATAL ANY)

file(READ LICENSE exceptions)
string(REGEX REPLACE "^.*(---- LLVM Exceptions)" "\\1" exceptions "${exceptions}")
file(WRITE ${debian}/copyright "Copyright: ${year}, ${CPACK_PACKAGE_CONTACT}\nLicense: Apache-2.0 with LLVM exceptions. \
On Debian systems Apache-2.0 is in /usr/share/common-licenses/Apache-2.0.\n\n${exceptions}
What is linked in has licences of its own, in the folder licenses next to this file.\n")

# ptxbuilder_debian_package(GROUP SECTION DEPENDS TEXT COMPONENT...) defines the package that package_GROUP names. Its licences and
# changelog form a separate component, which no other package contains.
macro(ptxbuilder_debian_package group section depends text)
  foreach(component ${ARGN} ${group}_documents)
    cpack_add_component(${component} GROUP ${group})
  endforeach()
  set(documents DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package_${group}} COMPONENT ${group}_documents EXCLUDE_FROM_ALL)
  install(FILES ${debian}/changelog.gz ${debian}/copyright ${documents})
  install(DIRECTORY ${licenses} ${documents})
  string(TOUPPER ${group} GROUP)
  set(CPACK_DEBIAN_${GROUP}_PACKAGE_NAME ${package_${group}})
  set(CPACK_DEBIAN_${GROUP}_DESCRIPTION "${text}")
  set(CPACK_DEBIAN_${GROUP}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${GROUP}_PACKAGE_DEPENDS "libc6 (>= ${oldest_glibc})${depends}")
endmacro()
ptxbuilder_debian_package(library libs "" "The shared library, which includes LLVM, for running programs in C." library)
ptxbuilder_debian_package(tools devel "" "The command ptxb, which runs, explains, tunes and exports kernels." command)
ptxbuilder_debian_package(dev libdevel ", ${package_library} (= ${PROJECT_VERSION}), ${package_tools} (= ${PROJECT_VERSION})"
  "Headers, static libraries, CMake and pkg-config files, and documents." runtime emulator builder kernels c tools)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${debian}/shlibs ${debian}/triggers)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS nvidia-cuda-toolkit)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "g++, llvm-${LLVM_VERSION_MAJOR}-dev")
include(CPack)
