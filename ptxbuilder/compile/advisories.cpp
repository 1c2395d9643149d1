#include "ptxbuilder/compile/advisories.h"

namespace ptxbuilder {
namespace {

constexpr std::string_view setmaxnreg = "setmaxnreg", wgmma = "wgmma.mma_async", call = "call";

constexpr Advisory table[] = {
    {"C7504", "'setmaxnreg' ignored to maintain compatibility across compilation units", setmaxnreg,
     "The code is assembled to be linked later (ptxas -c or -Ofc, nvJitLink), and linkable code may not "
     "change its register count. Assemble the kernel as a whole program."},
    {"C7505", "'setmaxnreg' ignored to allow debugging", setmaxnreg,
     "The PTX asks for full debug information (`.target ..., debug`) or the driver was asked to generate it. "
     "Emit line directives only."},
    {"C7506", "'setmaxnreg' ignored to maintain compatibility into 'extern' call", setmaxnreg,
     "A function that ptxas cannot see is called and may need any number of registers. Remove the call."},
    {"C7507", "'setmaxnreg' ignored to maintain minimum register requirements", setmaxnreg,
     "The code that runs after a setmaxnreg needs more registers than it grants. Raise the count of that "
     "role, or give it smaller tiles."},
    {"C7508", "'setmaxnreg' ignored; unable to determine register count at entry", setmaxnreg,
     "The kernel does not bound its registers, so ptxas cannot tell how many there are to redistribute. Give "
     "it .maxntid with .minnctapersm, or .maxntid with .maxnreg."},
    {"C7509", "serialized due to the presence of Extern calls", call,
     "A function whose body is not in this PTX is called while wgmma results are in flight, and calls keep "
     "registers of their own. Remove the call (printf, assert) from kernels that use wgmma."},
    {"C7510", "serialized due to wgmma pipeline crossing function boundary", call,
     "wgmma work is in flight across a call, or in a function that was not inlined. Inline the function, or "
     "remove the call (printf, assert)."},
    {"C7511", "serialized due to insufficient register resources for the wgmma pipeline", wgmma,
     "The accumulators in flight do not fit in the registers of a thread. Use a smaller tile, fewer "
     "accumulators at a time, more warpgroups, or a larger register count for this role."},
    {"C7512", "serialized due to insufficient register resources for the function", wgmma,
     "Accumulators and the other live values together exceed the registers of a thread. Keep less alive "
     "across the wgmma, use a smaller tile, or raise the register count of this role."},
    {"C7513", "serialized due to non wgmma instructions defining input registers", wgmma,
     "Registers that hold operand A are written while a wgmma may still read them. Wait for that wgmma "
     "(wgmma.wait_group) before the write, or alternate between two sets of A registers."},
    {"C7514", "serialized due to non wgmma instructions reading accumulator registers", wgmma,
     "An accumulator is read or copied while a wgmma may still write it. Put wgmma.wait_group before the "
     "first use, and do not swap accumulators from one loop iteration to the next or index them with a "
     "runtime value."},
    {"C7515", "serialized due to non wgmma instructions defining accumulator registers", wgmma,
     "An accumulator is written between the wgmma.fence and the wait of a wgmma that uses it. Write it "
     "before the fence or after the wait; to start from zero use scale-d = 0."},
    {"C7516", "serialized due to ill formed pipeline stage", wgmma,
     "fence, wgmma, commit_group and wait_group do not follow each other on every path. Keep the sequence in "
     "one straight line or one uniform loop."},
    {"C7517", "to allow use of registers defined by GMMA", wgmma,
     "ptxas had to add a wait because an accumulator is used before the program waits for it. Commit the "
     "group and put wgmma.wait_group before the use."},
    {"C7518", "program dependence on compiler-inserted WG.DP in divergent path", wgmma,
     "A wait that ptxas has to add would be executed by only some threads of the warpgroup. Put "
     "wgmma.wait_group before the branch, and keep wgmma out of divergent code."},
    {"C7519", "to allow use of registers in GMMA", wgmma,
     "ptxas had to add a wgmma.fence because registers of a wgmma were accessed since the last fence, or "
     "there was no fence. Put wgmma.fence after the last write of accumulators or A registers, in the same "
     "block as "
     "the wgmma."},
    {"C7520", "program dependence on compiler-inserted WG.AR in divergent path", wgmma,
     "A wgmma.fence that ptxas has to add would be executed by only some threads of the warpgroup. Put "
     "wgmma.fence before the wgmma yourself, and keep both out of divergent code."},
    {"C7600", "Register allocation failed", "",
     "The values alive at one point exceed the registers a thread may have. Use a smaller tile or fewer "
     "threads, or raise .maxnreg."},
    {"C7602", "Insufficient registers", "",
     "One instruction alone needs more registers than a thread may have: 65536 divided by the threads of the "
     "CTA, at most 255, or .maxnreg. Use a smaller tile or fewer threads."},
    {"", "Unsupported .version", "",
     "The PTX needs a newer PTX ISA than this ptxas or driver supports. Use a newer ptxas or driver, or "
     "lower the PTX version."},
    {"", "is not defined for option 'gpu-name'", "",
     "This ptxas does not know the target: use a newer ptxas, or choose another target."},
    {"", "requires PTX ISA .version", "",
     "Request at least that version: for a module with --ptx-version or ModuleOptions::ptx_version, and for "
     "a Kernel with Builder::require()."},
    {"", "not supported on .target", "",
     "The target lacks this instruction; `ptxb isa MNEMONIC` lists the targets that have it. wgmma needs "
     "sm_90a, not plain sm_90, and tcgen05 needs sm_100a, not sm_90a or plain sm_100."},
};

}  // namespace

std::string to_string(PtxasVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.build);
}

std::span<const Advisory> advisories() { return table; }

const Advisory* find_advisory(std::string_view message) {
  for (const Advisory& advisory : table) {
    if (message.find(advisory.phrase) != std::string_view::npos) return &advisory;
  }
  return nullptr;
}

}  // namespace ptxbuilder
