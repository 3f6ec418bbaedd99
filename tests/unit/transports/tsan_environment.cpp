// As it is loaded, UCX patches mmap, madvise and the like in the running libc, unless told not to. A thread
// that ends then enters the thread sanitizer after the sanitizer has forgotten it, and crashes. UCX reads the
// setting before `main`, so under that sanitizer the program starts itself again with it.
#ifdef __SANITIZE_THREAD__

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

const bool restarted = [] {
  if (std::getenv("UCX_MEM_MMAP_HOOK_MODE") != nullptr) return false;
  ::setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < line.size(); at = line.find('\0', at) + 1)
    arguments.push_back(&line[at]);
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  std::_Exit(3);
}();

}  // namespace

#endif
