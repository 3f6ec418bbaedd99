// A planted data race. The thread sanitizer must fail this program: a checker that cannot fail checks
// nothing.
#include <thread>

int main() {
  int shared = 0;
  std::thread first([&] { ++shared; });
  std::thread second([&] { ++shared; });
  first.join();
  second.join();
  return shared > 2 ? 1 : 0;
}
