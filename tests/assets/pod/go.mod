module outrigger.test/pod

go 1.26
