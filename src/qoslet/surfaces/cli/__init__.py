"""The program ``qoslet``: a module for each verb, loaded when that verb is called.

Only this package prints, exits and turns errors into lines; only ``wire`` joins real parts.
"""
