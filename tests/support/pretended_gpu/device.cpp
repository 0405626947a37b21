// A pretended GPU: tensors of device "cuda" whose memory and kernels are the CPU's.
//
// torch's CPU build leaves the dispatch key CUDA free. Here it gets an allocator, hooks, a device
// guard, the few operators that make or move memory, and a fallback: any other operator runs the
// CPU's kernel on the same memory. kernels.py adds kernels that only GPUs have.
//
// Work is done at once, but copies to pinned memory are not: their target holds junk until somebody
// waits for an event or a stream, as on a GPU that is behind the host.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>

using at::Tensor;
using c10::Device;
using c10::DeviceType;

namespace {

const Device GPU(DeviceType::CUDA, 0);
const c10::DispatchKeySet ON_GPU(c10::DispatchKey::CUDA), ON_CPU(c10::DispatchKey::CPU);
constexpr int NEW = 0xFF;   // bytes of new memory: NaN, or -1
constexpr int JUNK = 0x7B;  // bytes of a copy that is under way: 1.3e36 in fp32

// ------------------------------------------------------------------------------ memory

std::atomic<int64_t> held{0}, most_held{0}, limit{80LL << 30};  // bytes of the GPU's tensors
std::atomic<int64_t> waits{0}, operators{0}, copies_in{0}, copies_out{0};
std::mutex lock;                             // of what follows; savers and autograd have threads
std::map<const void*, size_t> gpu_blocks;    // bytes by address
std::set<const void*> pinned_blocks;

bool is_in_pinned_memory(const Tensor& x) {
  std::lock_guard<std::mutex> locked(lock);
  return pinned_blocks.count(x.storage().data());
}

struct Memory : c10::Allocator {
  explicit Memory(Device device) : device(device) {}
  const Device device;

  c10::DataPtr allocate(size_t wanted) override {
    const size_t bytes = (wanted + 511) / 512 * 512;  // as torch's allocator for GPUs
    if (!device.is_cpu()) {
      TORCH_CHECK_WITH(OutOfMemoryError, held + (int64_t)bytes <= limit,
          "CUDA out of memory. Tried to allocate ", wanted, " bytes; the pretended GPU holds ",
          held.load(), " of ", limit.load());
      held += bytes;
      most_held = std::max(most_held.load(), held.load());
    }
    void* address = nullptr;
    TORCH_CHECK(posix_memalign(&address, 512, std::max<size_t>(bytes, 512)) == 0, "out of memory");
    memset(address, NEW, bytes);
    std::lock_guard<std::mutex> locked(lock);
    if (device.is_cpu()) pinned_blocks.insert(address);
    else gpu_blocks[address] = bytes;
    return {address, address, &release, device};
  }
  static void release(void* address) {
    {
      std::lock_guard<std::mutex> locked(lock);
      pinned_blocks.erase(address);
      auto found = gpu_blocks.find(address);
      if (found != gpu_blocks.end()) {
        held -= found->second;
        gpu_blocks.erase(found);
      }
    }
    free(address);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    memcpy(to, from, bytes);
  }
};
Memory gpu_memory(GPU), pinned_memory(Device(DeviceType::CPU));

// ------------------------------------------------------------------------------ waiting

std::atomic<bool> waiting_is_an_error{false};  // as torch.cuda.set_sync_debug_mode("error")

// A copy that is under way, from or to pinned memory.
struct Copy {
  Tensor pinned, content;
  bool is_out;
};
std::deque<Copy> under_way;
int64_t begun = 0, done = 0;  // copies

// The host has waited for all copies up to the `last` one that was begun.
void finish(int64_t last) {
  std::deque<Copy> ready;
  {
    std::lock_guard<std::mutex> locked(lock);
    for (; done < last && !under_way.empty(); done++) {
      ready.push_back(under_way.front());
      under_way.pop_front();
    }
  }
  for (auto& copy : ready) {
    if (copy.is_out) {
      copy.pinned.copy_(copy.content);
      continue;
    }
    Tensor now = copy.pinned.contiguous();
    TORCH_CHECK(memcmp(now.data_ptr(), copy.content.data_ptr(), now.nbytes()) == 0,
                "pinned memory was changed before the copy from it to the GPU was done");
  }
}
int64_t copies_begun() {
  std::lock_guard<std::mutex> locked(lock);
  return begun;
}

void wait_for(const std::string& what) {
  waits++;
  TORCH_CHECK(!waiting_is_an_error, "called a synchronizing CUDA operation: ", what);
  finish(copies_begun());
}

void begin_copy(const Tensor& pinned, const Tensor& content, bool is_out) {
  Tensor kept = content.clone(at::MemoryFormat::Contiguous);
  if (is_out) {
    Tensor junk = at::empty_like(pinned, at::MemoryFormat::Contiguous);
    memset(junk.mutable_data_ptr(), JUNK, junk.nbytes());
    pinned.copy_(junk);
  }
  std::lock_guard<std::mutex> locked(lock);
  under_way.push_back({pinned, kept, is_out});
  begun++;
}

// ------------------------------------------------------------------------------ between devices

Tensor tensor_of(c10::intrusive_ptr<c10::StorageImpl> storage, c10::DispatchKeySet keys,
                 const Tensor& like) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), keys, like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(
      like.sym_sizes(), like.sym_strides(), like.sym_storage_offset());
  return made;
}

// The GPU's tensor as one of the CPU, of the same memory.
Tensor on_cpu(const Tensor& x) {
  auto keeper = new c10::Storage(x.storage());
  auto release = [](void* kept) { delete static_cast<c10::Storage*>(kept); };
  return tensor_of(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), x.storage().nbytes(),
      c10::DataPtr(x.storage().mutable_data(), keeper, release, Device(DeviceType::CPU)),
      c10::GetAllocator(DeviceType::CPU), /*resizable=*/true), ON_CPU, x);
}

c10::DataPtr copied(const c10::Storage& storage) {
  auto memory = gpu_memory.allocate(storage.nbytes());
  memcpy(memory.get(), storage.data(), storage.nbytes());
  return memory;
}

// A result of the CPU's kernel as a tensor of the GPU.
Tensor on_gpu(const Tensor& x) {
  return tensor_of(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), x.storage().nbytes(), copied(x.storage()), &gpu_memory,
      /*resizable=*/true), ON_GPU, x);
}

// ------------------------------------------------------------------------------ operators

// These need a size that only the GPU knows, so the host waits for it.
const std::set<std::string> WAITS = {
    "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive",
    "aten::unique_dim", "aten::equal", "aten::bincount", "aten::histc"};
const std::set<std::string> INDEXES = {
    "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
    "aten::_unsafe_index", "aten::_unsafe_index_put"};

// The arguments of an operator, as the CPU's kernel takes them, beside the tensors of the GPU.
struct Given {
  std::string name;
  std::vector<std::pair<Tensor, Tensor>> pairs;  // on the CPU, on the GPU

  Tensor take(const Tensor& x) {
    if (!x.defined()) return x;
    if (!x.is_cuda()) {
      if (INDEXES.count(name)) wait_for("copy of an index from the host");
      else TORCH_CHECK(x.dim() == 0, "Expected all tensors to be on the same device, but found at ",
                       "least two devices, cuda:0 and cpu! (", name, ")");
      return x;
    }
    for (auto& [cpu, gpu] : pairs) if (gpu.is_same(x)) return cpu;
    pairs.emplace_back(on_cpu(x), x);
    return pairs.back().first;
  }

  Tensor give_back(const Tensor& x) {
    if (!x.defined()) return x;
    for (auto& [cpu, gpu] : pairs) {
      if (!cpu.is_same(x)) continue;
      if (x.sizes() != gpu.sizes()) gpu.unsafeGetTensorImpl()->set_sizes_and_strides(
          x.sym_sizes(), x.sym_strides(), x.sym_storage_offset());
      return gpu;
    }
    for (auto& [cpu, gpu] : pairs) {
      if (!cpu.storage().is_alias_of(x.storage())) continue;
      auto view = at::detail::make_tensor<c10::TensorImpl>(
          c10::TensorImpl::VIEW, c10::Storage(gpu.storage()), ON_GPU, x.dtype());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(
          x.sym_sizes(), x.sym_strides(), x.sym_storage_offset());
      return view;
    }
    return on_gpu(x);
  }

  // Outputs that were given may have got other memory, because they were too small.
  void follow_resizing() {
    for (auto& [cpu, gpu] : pairs) {
      if (cpu.storage().data() == gpu.storage().data()) continue;
      gpu.storage().set_data_ptr_noswap(copied(cpu.storage()));
      gpu.storage().set_nbytes(cpu.storage().nbytes());
    }
  }
};

void run_on_cpu(const c10::OperatorHandle& op, c10::Stack* stack) {
  const auto& schema = op.schema();
  operators++;
  Given given{schema.name(), {}};
  if (WAITS.count(schema.name())) wait_for(schema.name());
  const size_t first = stack->size() - schema.arguments().size();
  if (schema.name() == "aten::repeat_interleave" && stack->back().isNone())
    wait_for("repeat_interleave without output_size");
  for (size_t i = first; i < stack->size(); i++) {
    auto& value = (*stack)[i];
    if (value.isTensor()) {
      value = given.take(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> taken;
      for (const Tensor& x : value.toTensorVector()) taken.push_back(given.take(x));
      value = taken;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> taken;
      for (std::optional<Tensor> x : value.toOptionalTensorList()) {
        if (x && x->defined()) {
          if (x->scalar_type() == at::kBool) wait_for("index by a mask");
          x = given.take(*x);
        }
        taken.push_back(x);
      }
      value = taken;
    } else if (value.isDevice()) {
      value = Device(DeviceType::CPU);
    }
  }
  op.redispatchBoxed(ON_CPU, stack);
  given.follow_resizing();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
    auto& value = (*stack)[i];
    if (value.isTensor()) {
      value = given.give_back(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> results;
      for (const Tensor& x : value.toTensorVector()) results.push_back(given.give_back(x));
      value = results;
    }
  }
}

Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
             std::optional<at::Layout>, std::optional<Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &gpu_memory, ON_GPU,
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), &gpu_memory, ON_GPU,
                                           c10::dtype_or_default(dtype));
}

const Tensor& resize_(const Tensor& self, c10::SymIntArrayRef size,
                      std::optional<at::MemoryFormat>) {
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const size_t bytes = c10::multiply_integers(sizes) * self.element_size();
  if (self.storage().nbytes() < bytes) {
    auto memory = gpu_memory.allocate(bytes);
    memcpy(memory.get(), self.storage().data(), self.storage().nbytes());
    self.storage().set_data_ptr_noswap(std::move(memory));
    self.storage().set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  operators++;
  Tensor to = self.is_cuda() ? on_cpu(self) : self, from = source.is_cuda() ? on_cpu(source) : source;
  const bool out = !self.is_cuda(), in = !source.is_cuda();
  if (out) copies_out++;
  if (in) copies_in++;
  if (out || in) {
    const Tensor& host = out ? self : source;
    // A change of type or order on the way takes memory that is not pinned.
    const bool is_plain = self.dtype() == source.dtype() && to.is_contiguous() && from.is_contiguous();
    if (!non_blocking) wait_for("copy without non_blocking");
    else if (!is_in_pinned_memory(host)) wait_for("copy of memory that is not pinned");
    else {
      if (!is_plain) wait_for("copy that also changes type or strides");
      if (out) {
        begin_copy(to, from, true);
        return self;
      }
      begin_copy(from, from, false);
    }
  }
  to.copy_(from);
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  Tensor target = to;
  return copy_(target, self, non_blocking);
}

at::Scalar item(const Tensor& x) {
  wait_for("item");
  return at::_local_scalar_dense(on_cpu(x));
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize_);
  m.impl("copy_", &copy_);
  m.impl("_copy_from", &copy_from);
  m.impl("_local_scalar_dense", &item);
  // Attention by products and softmax, without a fused kernel.
  m.impl("_fused_sdp_choice", [](const Tensor&, const Tensor&, const Tensor&,
      const std::optional<Tensor>&, double, bool, std::optional<double>, bool) -> int64_t {
    return 0;
  });
  m.impl("record_stream", [](Tensor&, c10::Stream) {});
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
}

// ------------------------------------------------------------------------------ one device

// The no-op guard answers that the current device is -1. Autograd wants a real one.
struct Guard : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Device exchangeDevice(Device) const override { return GPU; }
  Device getDevice() const override { return GPU; }
  c10::Stream getStream(Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, GPU);
  }
  c10::Stream getDefaultStream(Device) const override { return getStream(GPU); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(GPU); }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

const int registered = (c10::SetAllocator(DeviceType::CUDA, &gpu_memory, /*priority=*/200), 0);

}  // namespace

namespace at {

struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  const Generator& getDefaultGenerator(DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  Generator getNewGenerator(DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  bool isPinnedPtr(const void* address) const override {
    std::lock_guard<std::mutex> locked(lock);
    return pinned_blocks.count(address);
  }
};
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at

// What cuda.py calls.
extern "C" {

// The copies that were begun before now: an event to wait for.
int64_t record() { return copies_begun(); }

// Waits for copies up to an event; tells what went wrong, or returns null.
const char* wait(int64_t event) {
  static thread_local std::string problem;
  try {
    finish(event);
    return nullptr;
  } catch (const c10::Error& error) {
    problem = error.what_without_backtrace();
    return problem.c_str();
  }
}

// Makes waits errors, or allows them.
void forbid_waits(bool forbidden) { waiting_is_an_error = forbidden; }

void counts(int64_t* of) {
  for (auto counter : {&waits, &operators, &copies_in, &copies_out}) *of++ = *counter;
}
int64_t bytes_held() { return held; }
int64_t most_bytes_held() { return most_held; }
void forget_most_bytes() { most_held = held.load(); }
void set_limit(int64_t bytes) { limit = bytes; }

}  // extern "C"
