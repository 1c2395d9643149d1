"""Tests the project as users get it: installed, partly installed, and as a package in an empty root.

  package_test.py PART BUILD SOURCE WORK CXX

Builds the external projects in tests/project/package against what the build installs, and runs them. Each PART is a function part_NAME
below. It uses files that other parts left in WORK; tests/CMakeLists.txt names those parts as its fixtures.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

import shipped

LIMIT_OF_RUNTIME = 3 << 20  # in bytes
PRIVATE = ["ir/state.h", "runtime/driver.h", "runtime/emulator/machine/machine.h", "kernels/family/execute.h"]
# A Debian package may rely on these files of libc6.
LIBC = ["/lib64/ld-linux-x86-64.so.2", *(f"/lib/x86_64-linux-gnu/lib{x}" for x in
                                        ["c.so.6", "m.so.6", "dl.so.2", "pthread.so.0", "rt.so.1"])]


def run(*command, code=0, **options):
    ran = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", **options)
    if ran.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit code {ran.returncode}, expected {code}\n{ran.stdout}")
    return ran.stdout


def expect(output, *texts):
    for text in texts:
        if text not in output:
            sys.exit(f"there is no '{text}' in:\n{output}")
    return output


def files_of(folder):
    return [path for path in glob.glob(folder + "/**", recursive=True, include_hidden=True)
            if os.path.isfile(path) and not os.path.islink(path)]


def build(source, folder, prefix, cxx, *options, code=0):
    # CMake's findings about the compilers are the same for all parts, so they are stored in the first build folder and reused.
    for known in sorted(glob.glob(f"{os.path.dirname(folder)}/compilers/CMakeFiles/[0-9]*/CMakeC*Compiler.cmake")):
        version = os.path.basename(os.path.dirname(known))
        os.makedirs(f"{folder}/CMakeFiles/{version}", exist_ok=True)
        if not os.path.exists(f"{folder}/CMakeFiles/{version}/{os.path.basename(known)}"):
            shutil.copy(known, f"{folder}/CMakeFiles/{version}")
    configured = run("cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                     f"-DCMAKE_CXX_COMPILER={cxx}", *options, code=code)
    if code == 0:
        run("cmake", "--build", folder)
    return " ".join(configured.split())  # CMake wraps its messages


def check_files(prefix, build_folder, source):
    """Checks that no private header, no path of the build, no fmt under its own name and no executable other than ptxb is installed."""
    for header in PRIVATE:
        if os.path.exists(f"{prefix}/include/ptxbuilder/{header}"):
            sys.exit(f"{header} is installed, and is not public")
    outside = set(os.listdir(f"{prefix}/include")) - {"ptxbuilder"}
    if outside or os.listdir(f"{prefix}/bin") != ["ptxb"]:
        sys.exit(f"include has {outside} next to ptxbuilder, bin has {os.listdir(prefix + '/bin')}")
    for path in files_of(prefix):
        with open(path, "rb") as file:
            content = file.read()
        for folder in (build_folder, source):
            if folder.encode() + b"/" in content:
                sys.exit(f"{path} has a path of the build in it, {folder}")
        if path.endswith(".a"):
            names = run("nm", "-C", path)
            if re.search(r" [TWVu] .*\bfmt::v\d+::", names):
                sys.exit(f"{path} defines fmt's functions by fmt's names")


def check_new(work, prefix):
    """Checks the files and the output of `ptxb new`; the project `outside` builds the files."""
    ptxb = f"{prefix}/bin/ptxb"
    os.mkdir(f"{work}/made")
    here = {"cwd": f"{work}/made"}
    expect(run(ptxb, "new", "mine", **here), "wrote mine/mine.cpp, mine/CMakeLists.txt, mine/README.md", "    cd mine\n"
           f"    cmake -B build -DCMAKE_PREFIX_PATH={prefix}\n    cmake --build build\n    ctest --test-dir build\n")
    if left := [path for path in files_of(f"{work}/made") if re.search(r"@\w+@", open(path).read())]:
        sys.exit(f"{left} contain words that should have been replaced")
    expect(run(ptxb, "new", "mine", code=1, **here), "mine: it already exists, and nothing is overwritten")
    return f"{work}/made/mine"


def check_precompiled(folder):
    """Checks that all kernels of a project with the same compiler options share one precompiled header."""
    made = [path for path in files_of(folder) if re.search(r"cmake_pch\.hxx\.(gch|pch)$", path)]
    if len(made) != 1:
        sys.exit(f"one precompiled header was expected, and there are {made}")


def part_kernels(work, prefix, source, cxx, build_folder):
    """Tests kernels in an external project: its own, those that `ptxb new` creates, the examples, and emitted and exported kernels."""
    folder, examples = f"{work}/kernels", f"{prefix}/share/doc/ptxbuilder/examples"
    made = check_new(work, prefix)
    # Optimization would take half of the compile time. The test own_kernel covers a project that requests none.
    build(f"{source}/kernels", folder, prefix, cxx, f"-DEXAMPLES={examples}", f"-DNEW={made}", "-DCMAKE_CXX_FLAGS=-O0")
    check_precompiled(folder)
    expect(run("ctest", "--test-dir", f"{folder}/new"), "100% tests passed, 0 tests failed out of 2")
    run(f"{folder}/new/mine", "--rows", "1000", "--columns", "1024", "--device", "emulator")  # the command in its README
    for example, words in {"gemm_multistage": "--m 128 --n 128 --k 192", "gemm_warp_specialized": "--m 128 --n 256 --k 192",
                           "attention_step": "--heads 1 --queries 64 --keys 128"}.items():
        expect(run(f"{folder}/{example}", *words.split(), "--device", "emulator", "--assembler", "none"), "verified: ")
    scale = f"{folder}/scale"
    expect(run(scale, "--list"), "scale", "y = alpha x", "--n ", "elements (default 1000)",
           "threads of a CTA (default 128, a multiple of 32)")
    expect(run(scale, "--device", "emulator", "--n", "777", "--assembler", "none"), "verified: 777 of 777 elements")
    expect(run(scale, "--prove"), "nothing to prove")
    expect(run(scale, "--emit", f"{folder}/emitted", "--assembler", "none"), "scale.ptx")
    emulated = ["--device", "emulator", "--assembler", "none"]
    if "verified" in expect(run(scale, "--bench", *emulated, code=1), "times need a GPU", "--device cuda"):
        sys.exit("--bench verifies, which was not requested")
    expect(run(scale, "--verify", "--bench", *emulated, code=1), "verified: 1000 of 1000", "times need a GPU")
    expect(run(scale, "run", "--n", "777", *emulated), "verified: 777 of 777 elements")
    expect(run(scale, "lint", "threads=64"), "scale: 1 found", "(advice)")
    expect(run(scale, "explain", "threads=64"), "scale")
    expect(run(scale, "annotate", "--assembler", "none"), "scale.cpp")
    expect(run(scale, "tune", "--field", "threads=64,2048", "--n", "777", *emulated, code=1), "1 right, 0 wrong, 1 refused",
           "times need a GPU")
    expect(run(scale, "sim", code=2), "there is no command 'sim'; the nearest are")
    expect(run(scale, "--number", "1", code=2), "known here: ", " --threads ")
    if not os.path.exists("/dev/nvidiactl"):
        expect(run(f"{folder}/exported"), "saxpy: ", "libcuda.so.1", "scale: the same")
    with open(f"{folder}/emulated_driver") as file:
        emulated = {**os.environ, "LD_LIBRARY_PATH": file.read()}
    expect(run(f"{folder}/exported", env=emulated), "saxpy: 0 \n", "scale: the same")
    # The program loads kernels but launches none.
    expect(run(f"{prefix}/bin/ptxb", "record", "-o", f"{folder}/recorded", "--", f"{folder}/exported", env=emulated), "saxpy: 0 \n",
           "ptxb record: none of 0 launches was recorded\n")
    expect(run(scale, "--n", "0", code=2), "field n = 0: it must be at least 1")
    with open(f"{folder}/saxpy_files/saxpy.json") as sidecar:
        expect(sidecar.read(), '"threads": 64', "ceil_div(count, 64)")
    with open(f"{folder}/scale_c_export/scale_c.h") as header:
        expect(header.read(), "threads=64", "grid: ceil_div(n, 64) x 1 x 1")


def part_library(work, prefix, source, cxx, build_folder):
    """Tests programs that call the library from C++, from a compiler with its own LLVM module, and from C."""
    folder = f"{work}/library"
    build(f"{source}/library", folder, prefix, cxx, "-DCMAKE_CXX_FLAGS=-O0")
    expect(run(f"{folder}/outside"), ".visible .entry twice(", ".target sm_90\n", "add.rn.f32", "twice: 42 42",
           "product: right")
    expect(run(f"{folder}/front_end"), ".visible .entry statement(", "cp.async.bulk.shared::cluster",
           "mbarrier.try_wait.parity", "wgmma.mma_async.sync.aligned.m64n16k16", "front end: 0 of 2048 wrong")
    expect(run(f"{folder}/from_c"), "from C: version 100, \"A is NULL\"")


def part_runtime(work, prefix, source, cxx, build_folder):
    """Tests the runtime alone, without LLVM and next to the package of another LLVM, and CMake's messages about missing components."""
    alone = f"{work}/runtime"
    run("cmake", "--install", build_folder, "--prefix", alone, "--component", "runtime")
    size = sum(os.path.getsize(path) for path in files_of(alone))
    if size > LIMIT_OF_RUNTIME:
        sys.exit(f"the runtime alone takes {size} bytes, more than {LIMIT_OF_RUNTIME}")
    launcher = source + "/launcher"
    build(launcher, f"{work}/launcher", alone, cxx, "-DCOMPONENTS=runtime")
    expect(run(f"{work}/launcher/launcher"), "version 100", "this program is not linked with the emulator; link ptxbuilder::emulator")
    if "LLVM" in run("ldd", f"{work}/launcher/launcher"):
        sys.exit("the runtime links LLVM")
    expect(build(launcher, f"{work}/refused", alone, cxx, "-DCOMPONENTS=kernels", code=1),
           "component 'kernels' is not installed")
    build(launcher, f"{work}/emits", prefix, cxx, "-DCOMPONENTS=builder")
    expect(run(f"{work}/emits/emits"), ".visible .entry nothing")
    check_configuring(work, prefix, source, cxx)


def check_precompiling(folder, configure, source):
    """Checks that kernels with the same compiler options share precompiled headers, and that a kernel's own settings take effect."""
    kernels = "\n".join(f"ptxbuilder_add_kernel({name} {source}/kernels/scale.cpp)" for name in "abcdef")
    configure("kernels", f"""{kernels}
set_target_properties(a b c d e f PROPERTIES EXCLUDE_FROM_ALL ON)
set_target_properties(a PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
target_compile_definitions(d PRIVATE OTHER=1)
target_precompile_headers(e PRIVATE <vector>)
target_link_options(f PRIVATE -fuse-ld=bfd)""", code=0)
    with open(f"{folder}/build.ninja") as file:
        rules = file.read()
    makes = sorted(set(re.findall(r"^build CMakeFiles/(\w)\.dir/cmake_pch\.hxx\.", rules, re.M)))
    if makes != ["b", "d", "e"]:
        sys.exit(f"headers are precompiled for {makes}, and not for b (with c and f), d and e")
    # An installed fast linker is used, except for f, which names its own linker.
    fast = next((name for name in ("lld", "gold") if shutil.which(f"ld.{name}")), None)
    linkers = re.findall(r"-fuse-ld=(\w+)", rules)
    if sorted(linkers) != ["bfd"] + 5 * [fast] * bool(fast):
        sys.exit(f"kernels are linked by {linkers}, and not by {fast} if they do not choose one")


def check_configuring(work, prefix, source, cxx):
    """Checks that CMake names a missing component before anything is built."""
    folder = f"{work}/configured"

    def configure(components, lines="", before="", code=1):
        shutil.rmtree(folder, ignore_errors=True)
        return build(source + "/configured", folder, prefix, cxx, f"-DCOMPONENTS={components}", f"-DCODE={lines}",
                     f"-DBEFORE={before}", code=code)

    kernels, tools = "find_package(ptxbuilder REQUIRED COMPONENTS kernels", "find_package(ptxbuilder REQUIRED COMPONENTS tools"
    expect(configure("runtime", "ptxbuilder_export(a saxpy)"), "ptxbuilder_export(a saxpy) needs ptxbuilder::ptxb", tools)
    expect(configure("runtime", "ptxbuilder_emit(a saxpy)"), "ptxbuilder_emit(a saxpy) needs ptxbuilder::ptxb", tools)
    expect(configure("tools", "ptxbuilder_emit(a own BY nothing)"), "BY nothing names no executable")
    expect(configure("runtime", "ptxbuilder_add_kernel(a a.cpp)"), "ptxbuilder_add_kernel(a) needs", kernels)
    expect(configure("tools", "ptxbuilder_export(a sapxy)"), "ptxb has no kernel 'sapxy', but ", " saxpy ")
    expect(configure("tools", "ptxbuilder_export(a own BY nothing)"), "BY nothing names no executable")
    own = f"add_executable(own {source}/launcher/launcher.cpp)\nset_target_properties(own PROPERTIES EXCLUDE_FROM_ALL ON)"
    check_precompiling(folder, configure, source)
    configure("tools", f"ptxbuilder_export(a own BY own)\nset_target_properties(a PROPERTIES EXCLUDE_FROM_ALL ON)\n{own}",
              code=0)
    no_llvm = "set(CMAKE_FIND_LIBRARY_PREFIXES none)"
    expect(configure("", "", no_llvm, code=0), "without component 'builder', which needs libLLVM-",
           "without component 'kernels', which needs component 'builder'")
    expect(configure("builder", "", no_llvm), "component 'builder' needs libLLVM-")

    def with_llvm(version):
        """Returns the CMake code of a program that also links another LLVM's library, which CMake finds after ptxbuilder."""
        return (f"add_library(LLVM SHARED IMPORTED)\nset_target_properties(LLVM PROPERTIES IMPORTED_LOCATION /nowhere/libLLVM.so)\n"
                f"set(LLVM_VERSION_MAJOR {version})\nadd_executable(two {source}/launcher/launcher.cpp)\n"
                "set_target_properties(two PROPERTIES EXCLUDE_FROM_ALL ON)\ntarget_link_libraries(two PRIVATE ptxbuilder::load LLVM)")

    expect(configure("builder", with_llvm(14)), "A_PROGRAM_HAS_ONE_LLVM__COMPONENT_c_OF_ptxbuilder_KEEPS_ITS_OWN")
    configure("builder", with_llvm(22), code=0)


def check_documents(prefix):
    """Checks that the installed pages work without the repository: the files that they name must be installed too."""
    folder = f"{prefix}/share/doc/ptxbuilder"
    for page in ["README.md", "commands.md", "sidecar.md"]:
        with open(f"{folder}/{page}") as file:
            text = file.read()
        for named in re.findall(r"`((?:ptxbuilder/)?[\w/]+\.h)`", text):
            if not os.path.exists(f"{prefix}/include/ptxbuilder/{named.removeprefix('ptxbuilder/')}") and named != "NAME.h":
                sys.exit(f"{page} names {named}, which is not installed")
        for named in re.findall(r"`(examples/[\w.]+|[\w.]+\.md)`", text):
            if not os.path.exists(f"{folder}/{named}"):
                sys.exit(f"{page} names {named}, which is not installed")
        for outside in re.findall(r"\b(?:build|scripts|tests)/\S*|--preset|@\w+@", text):
            sys.exit(f"{page} names {outside}, which is the repository's")


def compilers(cxx):
    """Returns the compiler of the build and, if it is installed, clang, because users of clang link code that g++ compiled."""
    clang = shutil.which("clang++-22")
    if not clang:
        print("left out: programs of clang++-22, which is not installed")
    return [cxx, clang] if clang else [cxx]


def part_pkg_config(work, prefix, source, cxx, build_folder):
    """Tests programs that g++ and clang compile and link with the flags from pkg-config."""
    environment = {**os.environ, "PKG_CONFIG_PATH": glob.glob(f"{prefix}/lib*/**/pkgconfig", recursive=True)[0]}

    def flags(package):
        return run("pkg-config", "--cflags", "--libs", package, env=environment).split()

    program = f"{work}/by_pkg_config"
    all_compilers = compilers(cxx)
    # The build's compiler has already compiled these files, with the same -I and with warnings as errors. So CMake's object files are
    # linked here with the flags from pkg-config. Without clang++, nothing else would be compiled with those flags.
    objects = f"{work}/library/CMakeFiles/outside.dir/outside.cpp.o", f"{work}/launcher/CMakeFiles/launcher.dir/launcher.cpp.o"
    for package, compiler, code in (("kernels", cxx, objects[0]), ("runtime", cxx, objects[1]),
                                    ("kernels", all_compilers[-1], f"{source}/library/outside.cpp")):
        folders = [os.path.normpath(flag[2:]) for flag in flags(f"ptxbuilder-{package}") if flag.startswith("-I")]
        if folders != [f"{prefix}/include"]:
            sys.exit(f"ptxbuilder-{package} says that headers are in {folders}")
        run(compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", code, "-o", program, *flags(f"ptxbuilder-{package}"))
        expect(run(program), *(["twice: 42 42", "product: right"] if package == "kernels" else ["this program is not linked with the emulator"]))
    examples = f"{prefix}/share/doc/ptxbuilder/examples"
    run("cc", f"{examples}/product.c", "-o", program, *flags("ptxbuilder-c"), f"-Wl,-rpath,{prefix}/lib")
    expect(run(program), "D[0][0] = 128, D[99][39] = 128, expected 128")
    run(f"{prefix}/bin/ptxb", "emit", "saxpy", "-o", f"{work}/emitted", "--assembler", "none")
    run(cxx, "-std=c++20", f"{examples}/launch.cpp", "-o", program, *flags("ptxbuilder-emulator"))
    expect(run(program, f"{work}/emitted/saxpy", "emulator"), "2 * 20 + 2 = 42, on ")
    for header in ["ptxbuilder.h", "runtime/runtime.h", "kernels/family/run.h", "kernels/gemm/matmul.h"]:
        for compiler in all_compilers if header == "ptxbuilder.h" else [cxx]:
            said = run(compiler, "-std=c++17", "-fsyntax-only", f"-I{prefix}/include", "-include", f"ptxbuilder/{header}", "-x",
                       "c++", "/dev/null", code=1)
            expect(said, "ptxbuilder needs C++20: compile with -std=c++20")
            if said.count("error: ") > 2:
                sys.exit(f"C++17 leads to more than one error:\n{said}")
    print(f"pkg-config: {run('pkg-config', '--modversion', 'ptxbuilder-c', env=environment).strip()}")


def install(root, *packages, code=0):
    """Installs the packages with dpkg, which checks their dependencies, if the user is root; otherwise it only unpacks them."""
    if os.geteuid() == 0:
        return run("dpkg", "--root", root, "--force-unsafe-io", "--install", *packages, code=code)
    for package in packages if code == 0 else ():
        run("dpkg-deb", "-x", package, root)
    return None


def check_lint(linting):
    """Checks the packages with lintian, and allows the intended deviations."""
    if not linting:
        print("left out: lintian, which is not installed")
        return
    said, _ = linting.communicate()
    if found := [line for line in said.splitlines() if re.match("[EW]: ", line)]:
        sys.exit("lintian:\n" + "\n".join(found))


def lint(packages):
    on_purpose = ["uses-no-compression-for-data-tarball",  # the test turns compression off
                  "malformed-contact", "bogus-mail-host-in-debian-changelog",  # the authors have no address
                  "embedded-library",  # LLVM and its dependencies
                  "no-manual-page",  # commands.md takes its place
                  "pkg-config-unavailable-for-cross-compilation"]  # CMake was given the folder
    if not shutil.which("lintian"):
        return None
    return subprocess.Popen(["lintian", "--suppress-tags", ",".join(on_purpose), *packages], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def part_debian(work, prefix, source, cxx, build_folder):
    """Tests the three .debs in a root with only libc. The library is installed first, because programs need nothing else."""
    packages, root = f"{work}/packages", f"{work}/root"
    # Compressing the .deb files would take most of the time.
    run(f"{source}/../../../scripts/package", build_folder, packages, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none")
    debs, (archive,) = sorted(glob.glob(packages + "/*.deb")), glob.glob(packages + "/*.tar.gz")
    linting = lint(debs)
    dev, library, tools = debs
    version, abi = ".".join(shipped.version_numbers()), shipped.abi_version()
    libc = f"libc6 (>= {shipped.oldest_glibc()})"
    for deb, name, depends in ((library, f"libptxbuilder{abi}", libc), (tools, "ptxbuilder-tools", libc),
                               (dev, "libptxbuilder-dev", f"{libc}, libptxbuilder{abi} (= {version}), ptxbuilder-tools (= {version})")):
        said = run("dpkg-deb", "-f", deb, "Package", "Version", "Depends")
        expect(said, f"Package: {name}\n", f"Version: {version}\n", f"Depends: {depends}\n")
    for path in LIBC:
        if os.path.exists(path):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
    os.makedirs(f"{root}/usr/bin")
    os.makedirs(f"{root}/var/lib/dpkg/info")
    os.makedirs(f"{root}/var/lib/dpkg/updates")
    with open(f"{root}/var/lib/dpkg/status", "w") as file:
        file.write(f"""Package: libc6\nStatus: install ok installed\nArchitecture: amd64
Version: {shipped.oldest_glibc()}\nMaintainer: test\nDescription: test\n\n""")
    enter = ["chroot", root] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--root", root]

    def build_from_c(include, folder):
        run("cc", f"-I{include}", f"{source}/library/from_c.c", "-o", f"{root}/usr/bin/from_c", f"-L{folder}", "-lptxbuilder")
        return [*enter, "/usr/bin/from_c"]

    install(root, library)
    from_c = build_from_c(f"{prefix}/include", os.path.dirname(glob.glob(f"{prefix}/lib*/**/libptxbuilder.so", recursive=True)[0]))
    tried = subprocess.run(from_c, capture_output=True, text=True)
    if "peration not permitted" in tried.stderr:
        print("left out: the packages in an empty root, since chroot is not permitted here")
        check_lint(linting)
        return
    expect(tried.stdout + tried.stderr, "from C: version 100, \"A is NULL\"")
    if refused := install(root, dev, code=1):
        expect(refused, "libptxbuilder-dev depends on ptxbuilder-tools")
    install(root, tools, dev)
    names = run("tar", "-tzf", archive)
    expect(names, "/bin/ptxb", "/include/ptxbuilder/ptxb.h", "/ptxbuilder-config.cmake", f"/libptxbuilder.so.{version}")
    folder = os.path.dirname(next(name for name in names.split() if name.endswith("/licenses/LLVM.txt")))
    run("tar", "-xzf", archive, "-C", packages, folder)
    folders = {deb: f"{root}/usr/share/doc/{os.path.basename(deb).split('_')[0]}/licenses" for deb in debs}
    for where, at in {**folders, archive: f"{packages}/{folder}"}.items():
        if problems := shipped.problems_of_licenses(lambda name, at=at: open(f"{at}/{name}").read()):
            sys.exit(f"licences in {where}: {problems}")
    os.remove(f"{root}/usr/bin/from_c")
    for path in ("include/ptxbuilder/ptxb.h", "lib/cmake/ptxbuilder/ptxbuilder-config.cmake", "share/doc/ptxbuilder/README.md"):
        if not os.path.exists(f"{root}/usr/{path}"):
            sys.exit(f"libptxbuilder-dev has no {path}")
    expect(run(*build_from_c(f"{root}/usr/include", f"{root}/usr/lib")), "from C: version 100, \"A is NULL\"")
    expect(run(*enter, "/usr/bin/ptxb", "run", "saxpy", "--device", "emulator", "--no-cache"), "verified")
    shutil.copy(f"{work}/launcher/launcher", f"{root}/usr/bin/launcher")
    expect(run(*enter, "/usr/bin/launcher"), "this program is not linked with the emulator")
    shutil.copy(f"{work}/kernels/exported", f"{root}/usr/bin/exported")
    expect(run(*enter, "/usr/bin/exported", env={**os.environ, "LD_LIBRARY_PATH": "/usr/lib/ptxbuilder"}), "saxpy: 0 \n")
    check_lint(linting)
    print("; ".join(f"{os.path.basename(deb)}, {os.path.getsize(deb) >> 10} KiB" for deb in debs), "run in an empty root")


def part_installed(work, prefix, source, cxx, build_folder):
    """Installs the files that all other parts use, and then moves them to a different folder."""
    shutil.rmtree(work, ignore_errors=True)
    run("cmake", "--install", build_folder, "--prefix", f"{work}/prefix")
    os.rename(f"{work}/prefix", prefix)
    build(f"{source}/nothing", f"{work}/compilers", prefix, cxx)
    check_files(prefix, build_folder, os.path.abspath(source + "/../../.."))
    check_documents(prefix)


def main(part, build_folder, source, work, cxx):
    globals()[f"part_{part}"](work, f"{work}/moved", source, cxx, build_folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
