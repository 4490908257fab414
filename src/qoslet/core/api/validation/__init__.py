"""What the API server refuses of a pod and of the kinds that carry a pod template.

A rule stands here only if every release that knows the field refuses the value, so that documents
of old and new clusters, manifests and ``kubectl get`` output all pass. What is required but not
needed to plan or run a pod (a container's image, a selector) may be absent.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, unless a module names another.
"""
