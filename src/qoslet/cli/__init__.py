"""The program ``qoslet``: a module for each command, loaded when it is called.

Only this package exits and turns errors into lines; ``app`` joins the parts.
"""
