module outrigger.test/gateway-api

go 1.24

require sigs.k8s.io/gateway-api v1.4.1
