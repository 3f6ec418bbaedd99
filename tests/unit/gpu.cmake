baton_test(gpu
  SOURCES gpu/host_device.cpp gpu/staging_ring.cpp
  LINKS baton::gpu
  LABELS unit)
