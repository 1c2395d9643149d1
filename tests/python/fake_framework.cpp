// Implements the Python module fake_framework, whose tensors claim to be on GPUs, on the driver
// mock_libcuda.cpp. Tests can count the extension's requests to a framework without a GPU.
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "mock_libcuda.h"

extern "C" {
#include "kernels/python/src/exchange.h"
#include "kernels/python/src/ffi.h"
}

namespace {

struct Tensor {
  PyObject_HEAD;
  ptxb_tensor tensor;
  int64_t shape[4], strides[4];
  managed_tensor* owned;  // the memory of a result
};

PyTypeObject* tensor_type;
MockDriver* driver;
struct {
  ptxbuilder::runtime::cu::Status (*retain)(ptxbuilder::runtime::cu::Context*, int);
  ptxbuilder::runtime::cu::Status (*make_current)(ptxbuilder::runtime::cu::Context);
} driver_calls;
// Counts requests to the framework: existing memory, and streams.
int allocated = 0, streams_asked = 0;
void* current = nullptr;
uintptr_t next_address = uintptr_t{1} << 40;

void let_go(managed_tensor* t) {
  --allocated;
  std::free(t->tensor.shape);
  std::free(t);
}

int allocate(ptxb_tensor* prototype, managed_tensor** out, void*, void (*)(void*, const char*, const char*)) {
  auto* t = static_cast<managed_tensor*>(std::calloc(1, sizeof(managed_tensor)));
  auto* dims = static_cast<int64_t*>(std::calloc(8, sizeof(int64_t)));
  t->deleter = let_go;
  t->tensor = *prototype;
  t->tensor.shape = dims, t->tensor.strides = dims + 4;
  for (int i = 0; i < prototype->ndim; ++i)
    dims[i] = prototype->shape[i], dims[4 + i] = prototype->strides[i];
  t->tensor.data = reinterpret_cast<void*>(next_address);
  next_address += uintptr_t{1} << 32;
  ++allocated;
  *out = t;
  return 0;
}

Tensor* new_tensor() { return reinterpret_cast<Tensor*>(PyType_GenericAlloc(tensor_type, 0)); }

int object_of(managed_tensor* t, void** out) {
  Tensor* made = new_tensor();
  made->tensor = t->tensor, made->owned = t;
  *out = made;
  return 0;
}

int tensor_of(void* object, ptxb_tensor* out) {
  *out = static_cast<Tensor*>(object)->tensor;
  return 0;
}

int current_stream(int32_t, int32_t, void** out) {
  ++streams_asked;
  *out = current;
  return 0;
}

exchange_api api = {{1, 3}, nullptr, allocate, nullptr, object_of, tensor_of, current_stream};

void destroy(PyObject* self) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (t->owned) t->owned->deleter(t->owned);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* asks_no_gradient(PyObject*, void*) { Py_RETURN_FALSE; }

// tensor(address, code, bits, rows, columns, device)
PyObject* make_tensor(PyObject*, PyObject* args) {
  unsigned long long address;
  int code, bits, device;
  long long rows, columns;
  if (!PyArg_ParseTuple(args, "KiiLLi", &address, &code, &bits, &rows, &columns, &device)) return nullptr;
  Tensor* t = new_tensor();
  t->shape[0] = rows, t->shape[1] = columns, t->strides[0] = columns, t->strides[1] = 1;
  t->tensor = {reinterpret_cast<void*>(address),
               {2, device},
               2,
               {uint8_t(code), uint8_t(bits), 1},
               t->shape,
               t->strides,
               0};
  return reinterpret_cast<PyObject*>(t);
}

// image(address, images, channels, lines, pixels, channels first in memory): an f16 image on the first GPU.
PyObject* make_image(PyObject*, PyObject* args) {
  unsigned long long address;
  long long n, c, h, w;
  int channels_first;
  if (!PyArg_ParseTuple(args, "KLLLLp", &address, &n, &c, &h, &w, &channels_first)) return nullptr;
  Tensor* t = new_tensor();
  const int64_t shape[] = {n, c, h, w}, last[] = {h * w * c, 1, w * c, c}, first[] = {c * h * w, h * w, w, 1};
  std::memcpy(t->shape, shape, sizeof shape);
  std::memcpy(t->strides, channels_first ? first : last, sizeof last);
  t->tensor = {reinterpret_cast<void*>(address), {2, 0}, 4, {2, 16, 1}, t->shape, t->strides, 0};
  return reinterpret_cast<PyObject*>(t);
}

// dims(tensor): the shape and the strides of four dimensions.
PyObject* dims(PyObject*, PyObject* tensor) {
  const ptxb_tensor& t = reinterpret_cast<Tensor*>(tensor)->tensor;
  return Py_BuildValue("(LLLL)(LLLL)", t.shape[0], t.shape[1], t.shape[2], t.shape[3], t.strides[0],
                       t.strides[1], t.strides[2], t.strides[3]);
}

// open(mock, sizes of a kernel's parameters): makes later openings of libcuda.so.1 return the mock. It may be
// called again with other sizes.
PyObject* open_driver(PyObject*, PyObject* args) {
  const char* path;
  PyObject* sizes;
  if (!PyArg_ParseTuple(args, "sO", &path, &sizes)) return nullptr;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) return PyErr_Format(PyExc_OSError, "%s", dlerror());
  driver = reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();
  *reinterpret_cast<void**>(&driver_calls.retain) = dlsym(library, "cuDevicePrimaryCtxRetain");
  *reinterpret_cast<void**>(&driver_calls.make_current) = dlsym(library, "cuCtxSetCurrent");
  driver->device_count = 2;
  driver->parameter_sizes.clear();
  for (Py_ssize_t i = 0; i < PyTuple_Size(sizes); ++i)
    driver->parameter_sizes.push_back(PyLong_AsSize_t(PyTuple_GetItem(sizes, i)));
  Py_RETURN_NONE;
}

PyObject* set_stream(PyObject*, PyObject* number) {
  current = PyLong_AsVoidPtr(number);
  Py_RETURN_NONE;
}

PyObject* seen(PyObject*, PyObject*) {
  return Py_BuildValue("{sisisisN}", "launches", driver->launches, "allocated", allocated, "streams_asked",
                       streams_asked, "stream", PyLong_FromVoidPtr(driver->config.stream));
}

// ---- The role of XLA ----

using Handler = void*(void* call);
Handler* handler_of(PyObject* capsule) {
  return reinterpret_cast<Handler*>(PyCapsule_GetPointer(capsule, "xla._CUSTOM_CALL_TARGET"));
}

// may_be_captured(handler): the handler's answer at its registration.
PyObject* may_be_captured(PyObject*, PyObject* capsule) {
  Handler* handler = handler_of(capsule);
  if (!handler) return nullptr;
  ffi_metadata metadata = {};
  ffi_metadata_extension extension = {{sizeof extension, FFI_METADATA, nullptr}, &metadata};
  ffi_call call = {};
  call.extension = &extension.base;
  handler(&call);
  return PyBool_FromLong(metadata.traits & FFI_COMMAND_BUFFER);
}

// run_kernel(handler, program, arguments, buffers): runs the handler of kernels on the first GPU, with a grid
// of one CTA. Each buffer is (XLA's type, address, elements), with -1 elements for a scalar. Returns an error
// message or None.
PyObject* run_kernel(PyObject*, PyObject* args) {
  PyObject *capsule, *words, *given;
  const char* program;
  if (!PyArg_ParseTuple(args, "OsOO", &capsule, &program, &words, &given)) return nullptr;
  Handler* handler = handler_of(capsule);
  if (!handler) return nullptr;
  std::vector<int64_t> numbers(static_cast<size_t>(PyTuple_Size(words))), grid = {1, 1, 1};
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(words, static_cast<Py_ssize_t>(i)));
  std::deque<ffi_buffer> buffers;
  std::deque<int64_t> extents;
  std::vector<ffi_buffer*> pointers;
  for (Py_ssize_t i = 0; i < PyTuple_Size(given); ++i) {
    int dtype;
    unsigned long long address;
    long long extent;
    if (!PyArg_ParseTuple(PyTuple_GetItem(given, i), "iKL", &dtype, &address, &extent)) return nullptr;
    extents.push_back(extent);
    buffers.push_back(
        {sizeof(ffi_buffer), nullptr, dtype, reinterpret_cast<void*>(address), extent >= 0, &extents.back()});
    pointers.push_back(&buffers.back());
  }
  ffi_text path = {program, std::strlen(program)};
  ffi_array ctas = {FFI_S64, grid.size(), grid.data()}, encoded = {FFI_S64, numbers.size(), numbers.data()};
  ffi_text names[] = {{"program", 7}, {"grid", 4}, {"arguments", 9}};
  ffi_text* name_of[] = {&names[0], &names[1], &names[2]};
  int types[] = {FFI_STRING, FFI_ARRAY, FFI_ARRAY};
  void* values[] = {&path, &ctas, &encoded};
  static std::string error;
  ffi_api api = {};
  api.stream_get = [](ffi_stream_get* get) -> void* {
    get->stream = current;
    return nullptr;
  };
  api.error_create = [](ffi_error_create* create) -> void* { return &(error = create->message); };
  ffi_call call = {};
  call.api = &api, call.stage = FFI_EXECUTE;
  call.arguments.count = static_cast<int64_t>(pointers.size()), call.arguments.all = pointers.data();
  call.attributes = {sizeof call.attributes, nullptr, 3, types, name_of, values};
  ptxbuilder::runtime::cu::Context context;
  driver_calls.retain(&context, 0), driver_calls.make_current(context);
  void* failed = handler(&call);
  driver_calls.make_current(nullptr);
  if (!failed) Py_RETURN_NONE;
  return PyUnicode_FromString(error.c_str());
}

// capture(is_on): starts or ends a capture of all streams, during which nothing may wait.
PyObject* set_capturing(PyObject*, PyObject* is_on) {
  driver->capturing = PyObject_IsTrue(is_on);
  Py_RETURN_NONE;
}

// parameters(): the first 8 bytes of each parameter of the last launch.
PyObject* parameters(PyObject*, PyObject*) {
  PyObject* all = PyList_New(0);
  for (uint64_t bits : driver->parameters) {
    PyObject* number = PyLong_FromUnsignedLongLong(bits);
    PyList_Append(all, number);
    Py_DECREF(number);
  }
  return all;
}

PyMethodDef methods[] = {{"open", open_driver, METH_VARARGS, nullptr},
                         {"tensor", make_tensor, METH_VARARGS, nullptr},
                         {"image", make_image, METH_VARARGS, nullptr},
                         {"dims", dims, METH_O, nullptr},
                         {"set_stream", set_stream, METH_O, nullptr},
                         {"seen", seen, METH_NOARGS, nullptr},
                         {"may_be_captured", may_be_captured, METH_O, nullptr},
                         {"run_kernel", run_kernel, METH_VARARGS, nullptr},
                         {"set_capturing", set_capturing, METH_O, nullptr},
                         {"parameters", parameters, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "fake_framework", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyGetSetDef attributes[] = {{"requires_grad", asks_no_gradient, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)}, {Py_tp_getset, attributes}, {0, nullptr}};
PyType_Spec spec = {"fake_framework.Tensor", sizeof(Tensor), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

PyMODINIT_FUNC PyInit_fake_framework() {
  PyObject* module = PyModule_Create(&definition);
  PyObject* type = PyType_FromSpec(&spec);
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  PyObject* capsule = PyCapsule_New(&api, "dlpack_exchange_api", nullptr);
  if (!module || !type || !capsule || PyObject_SetAttrString(type, "__dlpack_c_exchange_api__", capsule) ||
      PyModule_AddObject(module, "Tensor", type))
    return nullptr;
  return module;
}
