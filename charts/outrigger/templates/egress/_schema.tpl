{{/* The version of both resources, which differ in scope alone. src/egress/spec.rs has the same in Rust; a test compares them. */}}
{{- define "outrigger.egress.version" -}}
name: v1alpha1
served: true
storage: true
subresources:
  status: {}
additionalPrinterColumns:
- name: Hosts
  type: string
  jsonPath: .spec.hosts
- name: Allowlist
  type: string
  jsonPath: .spec.allowlist
- name: Mode
  type: string
  jsonPath: .spec.mode
- name: Placement
  type: string
  jsonPath: .spec.placement
- name: Accepted
  type: string
  jsonPath: .status.conditions[?(@.type=="Accepted")].reason
- name: Programmed
  type: string
  jsonPath: .status.conditions[?(@.type=="Programmed")].reason
- name: Addresses
  type: string
  priority: 1
  jsonPath: .spec.addresses
- name: Age
  type: date
  jsonPath: .metadata.creationTimestamp
schema:
  openAPIV3Schema:
    type: object
    description: Which hosts outside of the cluster workloads may reach, and how. Of several policies that list a connection the one
      decides that names its host most exactly, then the stricter, then the older one.
    required: [spec]
    properties:
      apiVersion:
        type: string
      kind:
        type: string
      metadata:
        type: object
      spec:
        type: object
        x-kubernetes-validations:
        - rule: has(self.hosts) || has(self.addresses) || self.allowlist == 'Enabled'
          message: 'names no hosts and no addresses, and allowlist is not Enabled: it would do nothing'
        - rule: '!has(self.hosts) || !has(self.addresses)'
          message: 'hosts and addresses are for policies of their own: expected one of them'
        - rule: "!has(self.addresses) || (has(self.ports) && self.ports.all(it, it.protocol in ['TCP', 'UDP']))"
          message: 'addresses show no name: expected ports, each with protocol TCP or UDP'
        - rule: "!has(self.tls) || !has(self.tls.mode) || self.tls.mode != 'Enforced' || !has(self.ports) || self.ports.all(it, !(it.protocol in ['TCP', 'UDP']))"
          message: 'tls.mode is Enforced, and nobody looks for TLS on ports with protocol TCP or UDP: expected protocol Detect'
        - rule: "!has(self.tls) || !has(self.tls.origination) || !has(self.ports) || self.ports.all(it, !(it.protocol in ['TCP', 'UDP']))"
          message: 'tls.origination is for protocol HTTP, HTTP2, GRPC or Detect'
        properties:
          workloads:
            type: object
            description: The workloads that it is for, which have one of the accounts and the labels; all of the namespace (of a
              ClusterEgressPolicy, of every namespace) where it is missing.
            properties:
              serviceAccounts:
                type: array
                description: Names of service accounts; any where it is missing.
                minItems: 1
                maxItems: 64
                x-kubernetes-list-type: set
                items:
                  type: string
                  minLength: 1
                  maxLength: 253
              podSelector:
                type: object
                description: Labels of pods.
                x-kubernetes-map-type: atomic
                properties:
                  matchLabels:
                    type: object
                    maxProperties: 64
                    additionalProperties:
                      type: string
                      maxLength: 63
                  matchExpressions:
                    type: array
                    maxItems: 64
                    items:
                      type: object
                      required: [key, operator]
                      x-kubernetes-validations:
                      - rule: (self.operator in ['In', 'NotIn']) == has(self.values)
                        message: values are for the operators In and NotIn, which need some
                      properties:
                        key:
                          type: string
                          minLength: 1
                          maxLength: 317
                        operator:
                          type: string
                          enum: [In, NotIn, Exists, DoesNotExist]
                        values:
                          type: array
                          minItems: 1
                          maxItems: 64
                          items:
                            type: string
                            maxLength: 63
          hosts:
            type: array
            description: Names, such as example.com, or wildcards for every name below one, such as *.example.com, one or more labels
              deep. Any case, and letters of any script.
            minItems: 1
            maxItems: 64
            x-kubernetes-list-type: set
            items:
              type: string
              minLength: 1
              maxLength: 255
              x-kubernetes-validations:
              - rule: self.matches('^([*][.])?[^*]*$')
                message: a wildcard may only be the whole first label, before a name, as in "*.example.com"
              - rule: "!self.matches('[\\\\s:/@%?#,_\\\\[\\\\]]')"
                message: expected a host name alone, without scheme, port or path
              - rule: self.matches('^([*][.])?[^.*]+([.][^.*]+)+[.]?$')
                message: expected a name with a dot, such as "example.com"; a wildcard stands before one, as in "*.example.com"
              - rule: "!self.matches('(^|[.])(0[xX][0-9a-fA-F]*|[0-9]+)[.]?$')"
                message: it is an address, which belongs into addresses
          addresses:
            type: array
            description: Addresses, or ranges of them (CIDR), for what shows no name.
            minItems: 1
            maxItems: 64
            x-kubernetes-list-type: set
            items:
              type: string
              minLength: 2
              maxLength: 64
              x-kubernetes-validations:
              - rule: self.matches('^([0-9]+([.][0-9]+){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)(/[0-9]+)?$')
                message: expected an address, or a range such as "203.0.113.0/24"
          ports:
            type: array
            description: Ports; 80 and 443 where it is missing.
            minItems: 1
            maxItems: 16
            x-kubernetes-list-type: map
            x-kubernetes-list-map-keys: [port, protocol]
            items:
              type: object
              required: [port]
              properties:
                port:
                  type: integer
                  format: int32
                  minimum: 1
                  maximum: 65535
                protocol:
                  type: string
                  description: What is spoken there. HTTP is HTTP/1.1, HTTP2 has gRPC in it, nobody looks inside of TCP and UDP. Detect is
                    whatever of HTTP, HTTP/2, gRPC and TLS the first bytes show.
                  enum: [HTTP, HTTP2, GRPC, TCP, UDP, Detect]
                  default: Detect
          allowlist:
            type: string
            description: Whether connections of these workloads that no policy lists are closed.
            enum: [Enabled, Disabled]
            default: Disabled
          tls:
            type: object
            x-kubernetes-validations:
            - rule: "!has(self.origination) || !has(self.mode) || self.mode == 'Enforced'"
              message: 'with origination everything leaves as TLS: expected mode Enforced, or none'
            properties:
              mode:
                type: string
                description: Whether connections must be TLS. Enforced where it is missing, but for the protocols HTTP, TCP and UDP.
                enum: [Enforced, Optional]
              origination:
                type: object
                description: The gateway makes TLS of what comes without.
                properties:
                  port:
                    type: integer
                    format: int32
                    description: The port of the host that it dials.
                    minimum: 1
                    maximum: 65535
                    default: 443
                  caCertificates:
                    type: object
                    description: The authorities whose certificates are taken (PEM); those of the system where it is missing.
                    required: [configMap]
                    properties:
                      configMap:
                        type: string
                        minLength: 1
                        maxLength: 253
                      key:
                        type: string
                        minLength: 1
                        maxLength: 253
                        default: ca.crt
          telemetry:
            type: string
            description: Whether requests are counted by host, where they can be seen.
            enum: [Enabled, Disabled]
            default: Enabled
          traceHeaders:
            type: string
            description: What becomes of headers that carry a trace, where they can be seen. None drops them, W3C and B3 translate them, Preserve
              leaves them.
            enum: [None, W3C, B3, Preserve]
            default: None
          mode:
            type: string
            description: Whether connections are closed, or recorded as ones that would be.
            enum: [Enforce, Observe]
            default: Enforce
          placement:
            type: string
            description: Who enforces it. Client is the proxy in the pod, Gateway the way out of the cluster.
            enum: [Client, Gateway]
            default: Client
      status:
        type: object
        properties:
          conditions:
            type: array
            maxItems: 8
            x-kubernetes-list-type: map
            x-kubernetes-list-map-keys: [type]
            items:
              type: object
              required: [lastTransitionTime, message, reason, status, type]
              properties:
                type:
                  type: string
                  maxLength: 316
                status:
                  type: string
                  enum: ["True", "False", Unknown]
                reason:
                  type: string
                  minLength: 1
                  maxLength: 1024
                  pattern: ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
                message:
                  type: string
                  maxLength: 32768
                observedGeneration:
                  type: integer
                  format: int64
                  minimum: 0
                lastTransitionTime:
                  type: string
                  format: date-time
{{- end }}
